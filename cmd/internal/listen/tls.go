package listen

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
)

// TLSFiles names the files of a server's TLS.
type TLSFiles struct {
	Cert, Key string // PEM files of the server
	// ClientCA is the PEM file of the authorities that must have signed the
	// certificates of clients; "" for none.
	ClientCA string
}

// Given reports whether any file is named.
func (f TLSFiles) Given() bool { return f != TLSFiles{} }

// Config returns a TLS configuration that follows changes of the files until ctx
// ends, or nil if no file is named. When a changed file is broken, the configuration
// keeps the last good content and calls changed with the reason.
func (f TLSFiles) Config(ctx context.Context, changed func(error)) (*tls.Config, error) {
	if !f.Given() {
		return nil, nil //nolint:nilnil // no files mean no TLS, which is how tls and http spell it too
	}
	if f.Cert == "" || f.Key == "" {
		return nil, errors.New("TLS needs a certificate and its key; give both files")
	}

	paths := []string{f.Cert, f.Key}
	if f.ClientCA != "" {
		paths = append(paths, f.ClientCA)
	}

	files, err := WatchFiles(ctx, f.parse, changed, paths...)
	if err != nil {
		return nil, err
	}

	// Each handshake asks for the configuration, so that new files need no
	// restart.
	config := files.Get().Clone()
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return files.Get(), nil }
	return config, nil
}

// parse makes a configuration of the content of the files.
func (f TLSFiles) parse(content ...[]byte) (*tls.Config, error) {
	cert, err := tls.X509KeyPair(content[0], content[1])
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", f.Cert, f.Key, err)
	}

	config := &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert},
		NextProtos: []string{"h2", "http/1.1"},
	}

	if len(content) > 2 {
		config.ClientCAs = x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(content[2]) {
			return nil, fmt.Errorf("client authorities %s: the file holds no certificate in PEM form", f.ClientCA)
		}
		config.ClientAuth = tls.RequireAndVerifyClientCert
	}

	return config, nil
}

// Certified returns a function that reports whether the certificate that config
// uses at the moment is valid for a host name. It returns nil for a nil config.
func Certified(config *tls.Config) func(host string) bool {
	if config == nil {
		return nil
	}
	return func(host string) bool {
		now := config
		if config.GetConfigForClient != nil {
			if latest, err := config.GetConfigForClient(nil); err == nil && latest != nil {
				now = latest
			}
		}

		return len(now.Certificates) > 0 && now.Certificates[0].Leaf != nil &&
			now.Certificates[0].Leaf.VerifyHostname(host) == nil
	}
}
