package hooks

import (
	"encoding/json"
	"fmt"
	"strings"
)

// payload is what a line of text is made of. Members of the same name mean the
// same in every event that has them; one of another type is left out.
type payload struct {
	Action  string `json:"action"`
	Ref     string `json:"ref"`
	RefType string `json:"ref_type"`
	Deleted bool   `json:"deleted"`
	Forced  bool   `json:"forced"`
	State   string `json:"state"`
	Context string `json:"context"`
	Sender  struct {
		Login string `json:"login"`
	} `json:"sender"`
	Repository struct {
		FullName string `json:"full_name"`
	} `json:"repository"`
	Organization struct {
		Login string `json:"login"`
	} `json:"organization"`
	Commits []struct {
		Message string `json:"message"`
	} `json:"commits"`
	HeadCommit struct {
		Message string `json:"message"`
	} `json:"head_commit"`
	PullRequest topic `json:"pull_request"`
	Issue       topic `json:"issue"`
	Discussion  topic `json:"discussion"`
	Comment     struct {
		Body string `json:"body"`
		Path string `json:"path"`
	} `json:"comment"`
	Review struct {
		State string `json:"state"`
		Body  string `json:"body"`
	} `json:"review"`
	CheckRun    job `json:"check_run"`
	CheckSuite  job `json:"check_suite"`
	WorkflowRun job `json:"workflow_run"`
	WorkflowJob job `json:"workflow_job"`
	Release     struct {
		Tag  string `json:"tag_name"`
		Name string `json:"name"`
	} `json:"release"`
	Deployment struct {
		Environment string `json:"environment"`
		Ref         string `json:"ref"`
	} `json:"deployment"`
	DeploymentStatus struct {
		State       string `json:"state"`
		Description string `json:"description"`
	} `json:"deployment_status"`
	Description string `json:"description"`
	Alert       struct {
		Number int `json:"number"`
		Rule   struct {
			Description string `json:"description"`
		} `json:"rule"`
		Advisory struct {
			Summary string `json:"summary"`
		} `json:"security_advisory"`
		Secret string `json:"secret_type_display_name"`
	} `json:"alert"`
	Label struct {
		Name string `json:"name"`
	} `json:"label"`
}

// topic is what people talk about.
type topic struct {
	Number int    `json:"number"`
	Title  string `json:"title"`
	Merged bool   `json:"merged"`
}

// job is what a machine does.
type job struct {
	Name       string `json:"name"`
	Status     string `json:"status"`
	Conclusion string `json:"conclusion"`
	Branch     string `json:"head_branch"`
}

// Bytes of what people wrote that stand in a line.
const (
	maxTitle = 200
	maxQuote = 1000
)

// githubText makes one line of an event, as a person would tell of it.
func githubText(event string, body []byte) string {
	var p payload
	_ = json.Unmarshal(body, &p) // it is JSON: at most a member has another type
	what, said := p.people(event)
	if what == "" {
		what, said = p.machines(event)
	}
	if what == "" {
		what = p.other(event)
	}
	text := strings.Join(strings.Fields(what), " ")
	if said = line(said, maxQuote); said != "" {
		text += ": " + said
	}
	return text
}

// people tells of what people do, and what they say.
func (p *payload) people(event string) (what, said string) {
	who, where := p.who(), p.where()
	switch event {
	case "push":
		return p.push()
	case "pull_request":
		return fmt.Sprintf("%s %s %s%s", who, p.did(), p.PullRequest.called("pull request"), where), p.PullRequest.Title
	case "issues":
		return fmt.Sprintf("%s %s %s%s", who, p.did(), p.Issue.called("issue"), where), p.Issue.Title
	case "issue_comment":
		return fmt.Sprintf("%s %s on %s%s", who, p.commented(), p.Issue.named("issue"), where), p.Comment.Body
	case "discussion":
		return fmt.Sprintf("%s %s %s%s", who, p.did(), p.Discussion.called("discussion"), where), p.Discussion.Title
	case "discussion_comment":
		return fmt.Sprintf("%s %s on %s%s", who, p.commented(), p.Discussion.named("discussion"), where), p.Comment.Body
	case "pull_request_review":
		return fmt.Sprintf("%s %s %s%s", who, p.reviewed(), p.PullRequest.named("pull request"), where), p.Review.Body
	case "pull_request_review_comment":
		return fmt.Sprintf("%s %s on %s of %s%s", who, p.commented(), line(p.Comment.Path, maxTitle), p.PullRequest.named("pull request"), where), p.Comment.Body
	case "commit_comment":
		return fmt.Sprintf("%s %s on a commit%s", who, p.commented(), where), p.Comment.Body
	case "release":
		return fmt.Sprintf("%s %s release %s%s", who, p.did(), line(p.Release.Tag, maxTitle), where), p.Release.Name
	case "create", "delete":
		return fmt.Sprintf("%s %sd %s %s%s", who, event, p.RefType, line(p.Ref, maxTitle), where), ""
	default:
		return "", ""
	}
}

// push tells how many commits came, and what the last of them is.
func (p *payload) push() (what, said string) {
	branch := line(strings.TrimPrefix(strings.TrimPrefix(p.Ref, "refs/heads/"), "refs/"), maxTitle)
	commits := fmt.Sprintf("%d commits", len(p.Commits))
	if len(p.Commits) == 1 {
		commits = "1 commit"
	}
	switch first, _, _ := strings.Cut(p.HeadCommit.Message, "\n"); {
	case p.Deleted:
		return fmt.Sprintf("%s deleted %s%s", p.who(), branch, p.where()), ""
	case len(p.Commits) == 0:
		return fmt.Sprintf("%s pushed %s%s", p.who(), branch, p.where()), first
	case p.Forced:
		return fmt.Sprintf("%s forced %s to %s%s", p.who(), commits, branch, p.where()), first
	default:
		return fmt.Sprintf("%s pushed %s to %s%s", p.who(), commits, branch, p.where()), first
	}
}

// machines tells of what runs.
func (p *payload) machines(event string) (what, said string) {
	switch event {
	case "check_run":
		return p.CheckRun.told("check", p.where()), ""
	case "check_suite":
		return p.CheckSuite.told("checks", p.where()), ""
	case "workflow_run":
		return p.WorkflowRun.told("workflow", p.where()), ""
	case "workflow_job":
		return p.WorkflowJob.told("job", p.where()), ""
	case "status":
		return fmt.Sprintf("status %s%s is %s", line(p.Context, maxTitle), p.where(), p.State), p.Description
	case "deployment":
		return fmt.Sprintf("%s deploys %s to %s%s", p.who(), line(p.Deployment.Ref, maxTitle), line(p.Deployment.Environment, maxTitle), p.where()), ""
	case "deployment_status":
		return fmt.Sprintf("deployment to %s%s is %s", line(p.Deployment.Environment, maxTitle), p.where(), p.DeploymentStatus.State), p.DeploymentStatus.Description
	case "code_scanning_alert", "dependabot_alert", "secret_scanning_alert":
		kind := strings.ReplaceAll(event, "_", " ")
		return fmt.Sprintf("%s %d%s: %s", kind, p.Alert.Number, p.where(), p.did()), p.Alert.Rule.Description + p.Alert.Advisory.Summary + p.Alert.Secret
	default:
		return "", ""
	}
}

// other tells of any event by its name.
func (p *payload) other(event string) string {
	return fmt.Sprintf("%s: %s %s%s", p.who(), strings.ReplaceAll(event, "_", " "), p.did(), p.where())
}

func (j job) told(what, where string) string {
	outcome, branch := j.Status, ""
	if j.Conclusion != "" {
		outcome = j.Conclusion
	}
	if j.Branch != "" {
		branch = " (" + line(j.Branch, maxTitle) + ")"
	}
	return fmt.Sprintf("%s %s%s%s: %s", what, line(j.Name, maxTitle), where, branch, strings.ReplaceAll(outcome, "_", " "))
}

func (p *payload) who() string {
	if p.Sender.Login == "" {
		return "GitHub"
	}
	return line(p.Sender.Login, maxTitle)
}

func (p *payload) where() string {
	switch {
	case p.Repository.FullName != "":
		return " in " + line(p.Repository.FullName, maxTitle)
	case p.Organization.Login != "":
		return " in " + line(p.Organization.Login, maxTitle)
	default:
		return ""
	}
}

func (p *payload) did() string {
	switch p.Action {
	case "closed":
		if p.PullRequest.Merged {
			return "merged"
		}
	case "synchronize":
		return "pushed to"
	case "converted_to_draft":
		return "made a draft of"
	case "ready_for_review":
		return "opened for review"
	case "review_requested":
		return "asked for a review of"
	case "review_request_removed":
		return "no longer asks for a review of"
	case "category_changed":
		return "moved"
	}
	return line(strings.ReplaceAll(p.Action, "_", " "), maxTitle)
}

func (p *payload) commented() string {
	if p.Action == "created" {
		return "commented"
	}
	return p.did() + " a comment"
}

func (p *payload) reviewed() string {
	state := strings.ToLower(p.Review.State)
	switch {
	case p.Action == "submitted" && state == "approved":
		return "approved"
	case p.Action == "submitted" && state == "changes_requested":
		return "requests changes of"
	case p.Action == "submitted":
		return "reviewed"
	default:
		return p.did() + " a review of"
	}
}

func (t topic) called(kind string) string { return fmt.Sprintf("%s #%d", kind, t.Number) }

func (t topic) named(kind string) string {
	return fmt.Sprintf("%s #%d (%s)", kind, t.Number, line(t.Title, maxTitle))
}
