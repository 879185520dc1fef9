package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"attend/internal/access"
)

const (
	tokenPrefix   = "atk_" // what leaks into a repository is found by its name
	tokenRandom   = 32     // bytes drawn
	maxTokenInput = 4096
)

// newToken builds `attend token`.
func newToken() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Draw a bearer token, or print the hash of one",
		Long: `Draw a bearer token, or print the hash of one. The hash goes into the list tokens
of attend.yaml, beside a name and rights; the token goes to whoever is to have
them, and is kept nowhere.`,
		Example: `  attend token new
  pass show attend | attend token hash`,
	}
	cmd.AddCommand(newTokenNew(), newTokenHash())
	return cmd
}

// tokenPair is a token and its hash, as they are printed.
type tokenPair struct {
	Token string `json:"token,omitempty"` // "" when it was given
	Hash  string `json:"hash"`
}

func newTokenNew() *cobra.Command {
	output := outputText
	cmd := &cobra.Command{
		Use:     "new",
		Short:   "Draw a token of 256 random bits, and print it with its hash",
		Example: "  attend token new -o json",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			drawn := make([]byte, tokenRandom)
			_, _ = rand.Read(drawn) // it never fails: the program ends before
			token := tokenPrefix + base64.RawURLEncoding.EncodeToString(drawn)
			return writeToken(cmd.OutOrStdout(), output, tokenPair{token, access.SumOf(token).Hash()})
		},
	}
	cmd.Flags().VarP(&output, "output", "o", "what to print")
	return cmd
}

func newTokenHash() *cobra.Command {
	output := outputText
	cmd := &cobra.Command{
		Use:   "hash",
		Short: "Print the hash of the token on the standard input",
		Long: `Print the hash of the token on the standard input. A blank at its end is left out.
It is not an argument, since everyone on a machine can read those.`,
		Example: "  pass show attend | attend token hash",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := io.ReadAll(io.LimitReader(cmd.InOrStdin(), maxTokenInput+1))
			if err != nil {
				return fmt.Errorf("read the token: %w", err)
			}
			token := strings.TrimSpace(string(b))
			switch {
			case len(b) > maxTokenInput:
				return fmt.Errorf("the token has more than %d bytes", maxTokenInput)
			case strings.ContainsFunc(token, func(c rune) bool { return c <= ' ' || c > '~' }):
				return errors.New("the token must be printable ASCII without blanks, so that it can stand in a header")
			case len(token) < access.MinToken:
				return fmt.Errorf("the token has %d bytes: it must have at least %d, or it is guessed", len(token), access.MinToken)
			}
			return writeToken(cmd.OutOrStdout(), output, tokenPair{Hash: access.SumOf(token).Hash()})
		},
	}
	cmd.Flags().VarP(&output, "output", "o", "what to print")
	return cmd
}

func writeToken(w io.Writer, output outputFlag, p tokenPair) error {
	if output == outputJSON {
		return json.NewEncoder(w).Encode(p)
	}
	text := "hash:  " + p.Hash + "\n"
	if p.Token != "" {
		text = "token: " + p.Token + "\n" + text
	}
	_, err := io.WriteString(w, text)
	return err
}
