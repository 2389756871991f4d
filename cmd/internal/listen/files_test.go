package listen_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zeroae/zae-limiter-go/cmd/internal/listen"
)

func TestFilesFollowChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "value")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one")
	synctest.Test(t, func(t *testing.T) {
		var reports []string
		f, err := listen.WatchFiles(t.Context(), func(content ...[]byte) (string, error) {
			if strings.Contains(string(content[0]), "broken") {
				return "", errors.New("is broken")
			}
			return string(content[0]), nil
		}, func(err error) {
			if err == nil {
				reports = append(reports, "changed")
				return
			}
			reports = append(reports, err.Error())
		}, path)
		if err != nil {
			t.Fatal(err)
		}
		expect := func(want string) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if got := f.Get(); got != want {
				t.Errorf("value %q, want %q", got, want)
			}
		}
		expect("one")
		write("two")
		expect("two")
		write("broken")
		expect("two")
		expect("two") // and is reported once
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		expect("two")
		write("tri")
		expect("tri")
		if len(reports) != 4 || reports[0] != "changed" || reports[1] != "is broken" ||
			!strings.Contains(reports[2], "no such file") || reports[3] != "changed" {
			t.Errorf("reports %q", reports)
		}
	})
}

// A server without calls reports a change, and a mistake, within a second.
func TestFilesFollowChangesWithoutCalls(t *testing.T) {
	path := filepath.Join(t.TempDir(), "value")
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var reports []error
		parse := func(content ...[]byte) (int, error) { return strconv.Atoi(string(content[0])) }
		write := func(text string) {
			t.Helper()
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("1")
		if _, err := listen.WatchFiles(ctx, parse, func(err error) {
			reports = append(reports, err)
		}, path); err != nil {
			t.Fatal(err)
		}
		expect := func(want int) {
			t.Helper()
			time.Sleep(time.Second)
			synctest.Wait()
			if len(reports) != want {
				t.Fatalf("reports %v, want %d of them", reports, want)
			}
		}
		expect(0)
		write("2")
		expect(1)
		write("broken")
		expect(2)
		if reports[0] != nil || reports[1] == nil {
			t.Errorf("reports %v, want a change and then a mistake", reports)
		}
		stop()
		synctest.Wait()
		write("3")
		expect(2)
	})
}

// certificate writes a certificate and its key, signed by the parent or by
// itself, and returns it.
func certificate(t *testing.T, dir, name string, parent *tls.Certificate, hosts ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: append(hosts, "localhost"), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: parent == nil,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	signer, signKey := template, any(key)
	if parent != nil {
		signer, signKey = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &key.PublicKey, signKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM, keyPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(
		&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER},
	)
	for suffix, text := range map[string][]byte{".pem": certPEM, ".key": keyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name+suffix), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

// A server with client authorities serves only clients with a certificate.
func TestMutualTLS(t *testing.T) {
	dir := t.TempDir()
	ca := certificate(t, dir, "ca", nil)
	certificate(t, dir, "server", &ca)
	client, other := certificate(t, dir, "client", &ca), certificate(t, dir, "other", nil)
	config, err := listen.TLSFiles{
		Cert: dir + "/server.pem", Key: dir + "/server.key", ClientCA: dir + "/ca.pem",
	}.Config(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	addr := start(t, http.HandlerFunc(hello), &listen.Options{TLS: config})
	roots := x509.NewCertPool()
	roots.AddCert(ca.Leaf)
	get := func(certs ...tls.Certificate) error {
		transport := &http.Transport{
			TLSClientConfig:   &tls.Config{RootCAs: roots, Certificates: certs, MinVersion: tls.VersionTLS12},
			ForceAttemptHTTP2: true,
		}
		defer transport.CloseIdleConnections()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+addr, nil)
		if err != nil {
			return err
		}
		res, err := transport.RoundTrip(req)
		if err != nil {
			return err
		}
		if res.ProtoMajor != 2 {
			t.Errorf("protocol %s, want HTTP/2", res.Proto)
		}
		return res.Body.Close()
	}
	if err := get(client); err != nil {
		t.Errorf("with a certificate: %v", err)
	}
	if err := get(); err == nil {
		t.Error("a client without a certificate was served")
	}
	if err := get(other); err == nil {
		t.Error("a client of another authority was served")
	}
}

func TestTLSFilesThatDoNotFit(t *testing.T) {
	dir := t.TempDir()
	certificate(t, dir, "a", nil)
	certificate(t, dir, "b", nil)
	for name, files := range map[string]listen.TLSFiles{
		"no key":          {Cert: dir + "/a.pem"},
		"key of another":  {Cert: dir + "/a.pem", Key: dir + "/b.key"},
		"no file":         {Cert: dir + "/none.pem", Key: dir + "/b.key"},
		"no certificates": {Cert: dir + "/a.pem", Key: dir + "/a.key", ClientCA: dir + "/a.key"},
	} {
		if _, err := files.Config(t.Context(), nil); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if config, err := (listen.TLSFiles{}).Config(t.Context(), nil); config != nil || err != nil {
		t.Errorf("no files: %v, %v", config, err)
	}
}

// The host names come from the certificate in use, with its wildcards.
func TestCertified(t *testing.T) {
	dir := t.TempDir()
	certificate(t, dir, "a", nil, "*.limits.example")
	config, err := listen.TLSFiles{Cert: dir + "/a.pem", Key: dir + "/a.key"}.Config(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	known := listen.Certified(config)
	if !known("eu.limits.example") || known("limits.example") || known("renewed.example") {
		t.Error("the names of a wildcard are wrong")
	}
	certificate(t, dir, "a", nil, "renewed.example")
	for limit := time.Now().Add(time.Minute); !known("renewed.example"); {
		if time.Now().After(limit) {
			t.Fatal("the names of a renewed certificate are unknown")
		}
	}
	if known("eu.limits.example") || listen.Certified(nil) != nil {
		t.Error("the names of the old certificate are still known")
	}
}

func TestHosts(t *testing.T) {
	handler := listen.Hosts(http.HandlerFunc(hello), &listen.HostOptions{
		Names: []string{"limits.example"}, Known: func(host string) bool { return host == "certified.example" },
	})
	for _, test := range []struct {
		host, field, value string
		want               int
	}{
		{"127.0.0.1:80", "", "", 200},
		{"localhost", "", "", 200},
		{"[::1]:80", "", "", 200},
		{"192.168.1.9", "", "", 200},
		{"LIMITS.example:443", "", "", 200},
		{"certified.example:443", "", "", 200},
		{"evil.example", "", "", 421},
		{"127.0.0.1.evil.example", "", "", 421},
		{"localhost.evil.example:80", "", "", 421},
		{"", "", "", 421},
		{"localhost", "Origin", "http://localhost", 403},
		{"localhost", "Origin", "null", 403},
		{"localhost", "Sec-Fetch-Site", "cross-site", 403},
		{"localhost", "Sec-Fetch-Site", "none", 200},
	} {
		r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil)
		r.Host = test.host
		if test.field != "" {
			r.Header.Set(test.field, test.value)
		}
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code != test.want {
			t.Errorf("%q %s %s: status %d, want %d", test.host, test.field, test.value, w.Code, test.want)
		}
		if kind := w.Header().Get("Content-Type"); (w.Code != 200) != (kind == "application/problem+json") {
			t.Errorf("%q: status %d has the content type %s", test.host, w.Code, kind)
		}
	}
}
