package webhook

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// What a secret is (events contract, 6).
const (
	secretPrefix   = "whsec_"
	minSecretBytes = 24
	maxSecretBytes = 64
)

// parseSecret decodes a secret as a subscriber gives it. The error says what is
// wrong with it, and nothing of what is in it.
func parseSecret(text string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok {
		return nil, errors.New("must begin with whsec_")
	}
	key, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || strings.ContainsAny(encoded, "\r\n") {
		return nil, errors.New("must be whsec_ and base64, with its padding")
	}
	if len(key) < minSecretBytes || len(key) > maxSecretBytes {
		return nil, fmt.Errorf("has %d bytes: must have %d to %d", len(key), minSecretBytes, maxSecretBytes)
	}
	return key, nil
}

// sign makes the signatures of a message as Standard Webhooks has them, one for
// each key: two while a secret rotates. The keys have been checked: the library
// takes an empty one.
func sign(keys [][]byte, id string, at time.Time, body []byte) (signatures string, err error) {
	all := make([]string, len(keys))
	for i, key := range keys {
		signer, err := standardwebhooks.NewWebhookRaw(key)
		if err != nil {
			return "", fmt.Errorf("sign %s: %w", id, err)
		}
		if all[i], err = signer.Sign(id, at, body); err != nil {
			return "", fmt.Errorf("sign %s: %w", id, err)
		}
	}
	return strings.Join(all, " "), nil
}

// errLocked reports a secret that this daemon cannot read.
var errLocked = errors.New("locked")

// sealed is a secret as it is stored. Without a key it lies there as it is.
type sealed struct {
	Key  string `json:"key,omitempty"` // which key it is encrypted with; "" for none
	Data []byte `json:"data"`          // behind a nonce, where it is encrypted
}

// vault encrypts secrets with AES-256-GCM, bound to the subscription that they
// belong to.
type vault struct {
	aead cipher.AEAD // nil: there is no key
	key  string      // its name: derived from it, and telling nothing of it
}

func newVault(key string) (*vault, error) {
	if key == "" {
		return &vault{}, nil
	}
	secret, err := hkdf.Key(sha256.New, []byte(key), nil, "attend webhook secrets", 32)
	if err != nil {
		return nil, fmt.Errorf("derive the key of webhook secrets: %w", err)
	}
	name, err := hkdf.Key(sha256.New, []byte(key), nil, "attend webhook key name", 6)
	if err != nil {
		return nil, fmt.Errorf("derive the name of the key of webhook secrets: %w", err)
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, fmt.Errorf("use the key of webhook secrets: %w", err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("use the key of webhook secrets: %w", err)
	}
	return &vault{aead: aead, key: hex.EncodeToString(name)}, nil
}

func (v *vault) seal(id string, secret []byte) sealed {
	if v.aead == nil {
		return sealed{Data: secret}
	}
	nonce := make([]byte, v.aead.NonceSize(), v.aead.NonceSize()+len(secret)+v.aead.Overhead())
	_, _ = rand.Read(nonce) // it never fails
	return sealed{Key: v.key, Data: v.aead.Seal(nonce, nonce, secret, []byte(id))}
}

// lacks tells whether a secret lies there as it is although there is a key.
func (v *vault) lacks(s *sealed) bool { return v.aead != nil && s.Key == "" }

// open returns the secret, or errLocked, wrapped with what is needed.
func (v *vault) open(id string, s *sealed) ([]byte, error) {
	switch {
	case s.Key == "":
		return s.Data, nil
	case v.aead == nil:
		return nil, fmt.Errorf("%w: the secret is encrypted with key %s, and ATTEND_SECRET_KEY is not set", errLocked, s.Key)
	case s.Key != v.key:
		return nil, fmt.Errorf("%w: the secret is encrypted with key %s, and ATTEND_SECRET_KEY is key %s", errLocked, s.Key, v.key)
	}
	n := v.aead.NonceSize()
	if len(s.Data) < n {
		return nil, fmt.Errorf("%w: the encrypted secret is damaged", errLocked)
	}
	secret, err := v.aead.Open(nil, s.Data[:n], s.Data[n:], []byte(id))
	if err != nil {
		return nil, fmt.Errorf("%w: the encrypted secret is damaged", errLocked)
	}
	return secret, nil
}
