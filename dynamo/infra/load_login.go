package infra

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// newDockerLogin returns a temporary folder with the settings of docker for one
// registry. They have the context of the user, so that docker calls the same
// daemon, but neither logins nor credential helpers: those of the user stay as
// they are. The caller removes the folder.
func newDockerLogin(host, user, password string) (folder string, err error) {
	own := dockerFolder()
	settings := map[string]json.RawMessage{}
	if content, err := os.ReadFile(filepath.Join(own, "config.json")); err == nil &&
		json.Unmarshal(content, &settings) != nil {
		// Docker ignores invalid settings, too.
		settings = map[string]json.RawMessage{}
	}

	// A helper would store the password of the registry among the user's own.
	delete(settings, "credsStore")
	delete(settings, "credHelpers")

	type login struct {
		Auth string `json:"auth"`
	}
	settings["auths"], err = json.Marshal(map[string]login{host: {
		base64.StdEncoding.EncodeToString([]byte(user + ":" + password)),
	}})
	if err != nil {
		return "", err
	}

	content, err := json.Marshal(settings)
	if err != nil {
		return "", err
	}

	if folder, err = os.MkdirTemp("", "zae-limiter-"); err != nil {
		return "", err
	}

	err = errors.Join(os.WriteFile(filepath.Join(folder, "config.json"), content, 0o600), copyConnection(folder, own))
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(folder))
	}

	return folder, nil
}

// dockerFolder returns the folder with the user's settings of docker, or "" if
// there is no home.
func dockerFolder() string {
	if folder := os.Getenv("DOCKER_CONFIG"); folder != "" {
		return folder
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return ""
	}
	return filepath.Join(home, ".docker")
}

// copyConnection copies what docker needs to reach its daemon: contexts, and the
// certificates of $DOCKER_HOST.
func copyConnection(to, from string) error {
	contexts := filepath.Join(from, "contexts")
	if isFolder(contexts) {
		if err := os.CopyFS(filepath.Join(to, "contexts"), os.DirFS(contexts)); err != nil {
			return err
		}
	}
	for _, name := range []string{"ca.pem", "cert.pem", "key.pem"} {
		content, err := os.ReadFile(filepath.Join(from, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}

		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), content, 0o600)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
