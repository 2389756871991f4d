package local

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The version of DynamoDB Local, and the digest of the fetched folder, which
// covers the name and the content of every jar. scripts/dynamodb-local has the
// same.
const (
	dynamoDBVersion = "3.1.0"
	dynamoDBDigest  = "d527bdf63005400d1528b50a88941554c04f5f9baa4345da0e0aefaa39173bb7"
	mavenPlugin     = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"
)

const pom = `<project>
	<modelVersion>4.0.0</modelVersion>
	<groupId>local</groupId>
	<artifactId>local</artifactId>
	<version>1</version>
	<dependencies>
		<dependency>
			<groupId>software.amazon.dynamodb</groupId>
			<artifactId>DynamoDBLocal</artifactId>
			<version>` + dynamoDBVersion + `</version>
		</dependency>
	</dependencies>
</project>
`

// errNoMaven reports that DynamoDB Local cannot be fetched.
var errNoMaven = errors.New("maven (mvn) is not installed")

// cacheFolder returns the folder for DynamoDB Local: under ZAEL_CACHE if that is
// set, else in the user's cache folder.
func cacheFolder() (string, error) {
	base := os.Getenv("ZAEL_CACHE")
	if base == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("there is no cache folder: %w; set ZAEL_CACHE", err)
		}
		base = filepath.Join(user, "zae-limiter")
	}

	// The engine has another working directory, so the path must not be
	// relative.
	base, err := filepath.Abs(base)
	return filepath.Join(base, "dynamodb-local"), err
}

// canFetch returns an error if DynamoDB Local is not cached and cannot be fetched.
func canFetch() error {
	cache, err := cacheFolder()
	if err != nil {
		return err
	}

	if _, err := os.Stat(filepath.Join(cache, dynamoDBVersion)); err == nil {
		return nil
	}

	if _, err := exec.LookPath("mvn"); err != nil {
		return errNoMaven
	}
	return nil
}

// fetch returns the folder with the jars of DynamoDB Local. Maven downloads them
// once. The folder is renamed into place after the check, so it is complete or
// absent.
func fetch(ctx context.Context, s *Settings) (folder string, err error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}

	folder = filepath.Join(cache, dynamoDBVersion)
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}

	if err := os.MkdirAll(cache, private); err != nil {
		return "", fmt.Errorf("the cache folder cannot be used: %w; set ZAEL_CACHE to a folder that can be written",
			err)
	}

	dir, err := os.MkdirTemp(cache, "fetch.")
	if err != nil {
		return "", fmt.Errorf("the cache folder cannot be used: %w; set ZAEL_CACHE to a folder that can be written",
			err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	stop := s.progress("fetching DynamoDB Local " + dynamoDBVersion + " with Maven")
	defer stop()

	jars := filepath.Join(dir, "lib")
	if err := download(ctx, dir, jars); err != nil {
		return "", err
	}

	err = os.Rename(jars, folder)
	// Another program may have been faster, and a rename does not replace its
	// folder.
	if _, missing := os.Stat(folder); missing == nil {
		err = nil
	}

	return folder, err
}

// download runs Maven and checks what it brought.
func download(ctx context.Context, dir, jars string) error {
	file := filepath.Join(dir, "pom.xml")
	if err := os.WriteFile(file, []byte(pom), 0o600); err != nil {
		return fmt.Errorf("the cache folder cannot be used: %w", err)
	}

	cmd := exec.CommandContext(ctx, "mvn", "-B", "-q", "-f", file, mavenPlugin+":copy-dependencies",
		"-DincludeScope=runtime", "-DincludeTypes=jar", "-DoutputDirectory="+jars)

	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &output, &output, time.Second
	// Maven runs Java as a child, which must not outlive it.
	grouped(cmd)

	err := cmd.Run()

	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return errNoMaven
	case err != nil:
		return &StartError{
			DynamoDB,
			"Maven could not download it (" + err.Error() + "); try again, or give its jar with --jar",
			last(lines(output.String()), shownLines),
		}
	}

	got, err := digest(jars)
	if err == nil && got != dynamoDBDigest {
		err = &StartError{
			Kind:   DynamoDB,
			Reason: fmt.Sprintf("the download has the digest %s, want %s; it is not used", got, dynamoDBDigest),
		}
	}

	return err
}

// digest returns the digest of a folder of jars: of the sorted lines that
// sha256sum prints for them.
func digest(folder string) (string, error) {
	names, err := filepath.Glob(filepath.Join(folder, "*.jar"))
	if err != nil {
		return "", err
	}

	sums := make([]string, 0, len(names))
	for _, name := range names {
		sum, err := fileDigest(name)
		if err != nil {
			return "", err
		}
		sums = append(sums, sum+"  "+filepath.Base(name)+"\n")
	}

	slices.Sort(sums)
	all := sha256.Sum256([]byte(strings.Join(sums, "")))
	return hex.EncodeToString(all[:]), nil
}

func fileDigest(name string) (_ string, err error) {
	file, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return hex.EncodeToString(hash.Sum(nil)), err
}
