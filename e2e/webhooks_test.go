//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// A receiver with a certificate of its own, which the daemon is told to trust,
// on an address that it is told to allow.
func TestWebhooks_AISDK(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	d := prepare(t, token)
	d.env = []string{
		"ATTEND_WEBHOOK_ALLOW=127.0.0.1/32", "ATTEND_WEBHOOK_CA_FILE=" + cert, "ATTEND_SECRET_KEY=for the end-to-end tests",
	}
	d.start()
	d.story(t, "ai-sdk", []string{"HOOK_CERT=" + cert, "HOOK_KEY=" + key}, "clients/webhooks.mjs", "whole", "refusalAndCrash", "rotate")
}

// certificate makes a certificate for 127.0.0.1, which signs itself, and returns
// the files that hold it and its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	of := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "a receiver"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	signed, err := x509.CreateCertificate(rand.Reader, of, of, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: signed}, key: {Type: "PRIVATE KEY", Bytes: secret}} { //arch:sorted each by itself
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}
