package pgtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// ErrMissing says that PostgreSQL's programs are not installed.
var ErrMissing = errors.New("initdb and pg_ctl of PostgreSQL were not found in PATH and /usr/lib/postgresql: install the package postgresql")

// patience ends a program that hangs.
const patience = 2 * time.Minute

// Cluster is a server with its data in a folder of its own.
type Cluster struct {
	bin, dir string
	port     int
	as       []string // what is put before a command to run it as its user

	guard *exec.Cmd // ends the server with this process, however that ends
	leash io.Closer
}

// NewCluster makes a cluster and starts it, on 127.0.0.1 and a free port. It
// writes to disk as a real one does (fsync is on). Its user is postgres, with
// every right and without a password.
func NewCluster() (_ *Cluster, err error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin}
	if c.dir, err = os.MkdirTemp("", "attend-postgres-"); err != nil {
		return nil, fmt.Errorf("make a folder for PostgreSQL: %w", err)
	}
	if err := c.watch(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.dir))
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Remove())
		}
	}()
	if os.Geteuid() == 0 { // PostgreSQL refuses to run as root
		if err := c.become("postgres"); err != nil {
			return nil, err
		}
	}
	if c.port, err = freePort(); err != nil {
		return nil, err
	}
	if err := c.run("initdb", "-D", c.data(), "-A", "trust", "-U", "postgres", "--no-locale", "-E", "UTF8", "--no-instructions"); err != nil {
		return nil, err
	}
	return c, c.Start()
}

// become has the programs run as a user, who is given the folder.
func (c *Cluster) become(name string) error {
	u, err := user.Lookup(name)
	if err != nil {
		return fmt.Errorf("PostgreSQL does not run as root: %w", err)
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err := errors.Join(err1, err2, os.Chown(c.dir, uid, gid)); err != nil {
		return fmt.Errorf("give the folder to %s: %w", name, err)
	}
	c.as = []string{"setpriv", "--reuid=" + u.Uid, "--regid=" + u.Gid, "--clear-groups"}
	return nil
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// URL is the server's, for its user and the database postgres.
func (c *Cluster) URL() string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/postgres?sslmode=disable", c.port)
}

// Start starts the server and waits until it answers.
func (c *Cluster) Start() error {
	// A pool of connections for each store that a test opens needs many.
	options := fmt.Sprintf("-p %d -c listen_addresses=127.0.0.1 -c unix_socket_directories=%s -c max_connections=300 -c shared_buffers=256MB -c max_wal_size=4GB", c.port, c.dir)
	return c.run("pg_ctl", "-D", c.data(), "-w", "-l", filepath.Join(c.dir, "log"), "-o", options, "start")
}

// Stop ends the server; the mode is pg_ctl's: fast, or immediate for a crash.
func (c *Cluster) Stop(mode string) error {
	return c.run("pg_ctl", "-D", c.data(), "-w", "-m", mode, "stop")
}

// Keep copies the data of a server that is stopped, for Restore.
func (c *Cluster) Keep() error { return c.copyData(c.data(), c.kept()) }

// Restore puts what Keep has copied in the place of the data of a server that
// is stopped: it comes back as it was then.
func (c *Cluster) Restore() error { return c.copyData(c.kept(), c.data()) }

func (c *Cluster) kept() string { return filepath.Join(c.dir, "kept") }

func (c *Cluster) copyData(from, to string) error {
	if err := os.RemoveAll(to); err != nil {
		return fmt.Errorf("copy the data: %w", err)
	}
	if out, err := exec.CommandContext(context.Background(), "cp", "-a", from, to).CombinedOutput(); err != nil {
		return fmt.Errorf("copy the data: %w\n%s", err, out)
	}
	return nil
}

// watch starts the guard: a shell that waits for its input to end, which it
// does when this process has ended, killed or not. It then ends the server and
// deletes all that it had.
func (c *Cluster) watch() error {
	c.guard = exec.CommandContext(context.Background(), "sh", "-c", `trap "" INT TERM HUP; cat
		if read -r pid <"$1/data/postmaster.pid" && kill -QUIT "$pid"; then
			n=0; while [ $n -lt 50 ] && [ -f "$1/data/postmaster.pid" ]; do sleep 0.1; n=$((n+1)); done
		fi
		rm -rf "$1"`, "guard", c.dir)
	leash, err := c.guard.StdinPipe()
	if err == nil {
		c.leash, err = leash, c.guard.Start()
	}
	if err != nil {
		return fmt.Errorf("guard PostgreSQL: %w", err)
	}
	return nil
}

// Remove ends the server and deletes all that it had.
func (c *Cluster) Remove() error {
	if err := errors.Join(c.leash.Close(), c.guard.Wait()); err != nil {
		return fmt.Errorf("end PostgreSQL: %w", err)
	}
	return nil
}

func (c *Cluster) run(program string, args ...string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	line := slices.Concat(c.as, []string{filepath.Join(c.bin, program)}, args)
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Dir = c.dir
	cmd.WaitDelay = time.Second // the server inherits the output
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		return fmt.Errorf("%s: %w\n%s", program, err, out.String())
	}
	return nil
}

// programs finds the newest installed.
func programs() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		if p, err = filepath.EvalSymlinks(p); err == nil {
			return filepath.Dir(p), nil
		}
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", ErrMissing
	}
	version := func(p string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(p))))
		return n
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1]), nil
}

// freePort asks the system for a port that nobody has.
func freePort() (int, error) {
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil //nolint:forcetypeassert // it is TCP
}
