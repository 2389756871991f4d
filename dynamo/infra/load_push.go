package infra

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// PushLoad builds and pushes the image of a load stack, and updates the code of its
// worker function. It keeps all settings.
//
// It returns the errors of DeployLoad, and limiter.ErrNotFound if there is no load
// stack.
func PushLoad(ctx context.Context, name string, opts *LoadOptions) (LoadDeployment, error) {
	const op = "push"
	l, err := newLoad(ctx, op, name, opts)
	if err != nil {
		return LoadDeployment{}, err
	}

	d := LoadDeployment{Target: l.target}
	d.Deployment, err = l.run(ctx, plan{
		missing: l.notFound,
		stable: func(ctx context.Context, stack *cfn.Stack) (Deployment, error) {
			return l.push(ctx, stack, &d)
		},
	})

	d.Complete = err == nil
	l.docker.close(ctx)
	return d, translateError(ctx, op, err)
}

// push replaces the image first, so that the stack never names one that is missing.
func (l *load) push(ctx context.Context, stack *cfn.Stack, d *LoadDeployment) (Deployment, error) {
	if err := l.checkUpdatable(stack); err != nil {
		return Deployment{}, err
	}

	if err := l.collect(ctx); err != nil {
		return Deployment{}, err
	}

	if err := l.buildImage(ctx); err != nil {
		return Deployment{}, err
	}

	if err := l.pushImage(ctx, outputsOf(stack)[outputRepository], d); err != nil {
		return Deployment{}, err
	}

	bucket, _ := l.codeTarget(ctx, stack)
	code, err := l.storeCode(ctx, bucket)
	if err != nil {
		return Deployment{}, err
	}

	return l.apply(ctx, stack, code, cloudformation.CreateChangeSetInput{
		UsePreviousTemplate: aws.Bool(true), Parameters: previousParameters(*stack, nil, l.codeParameters(code)...),
		Tags: cfnTags(mergeTags(tagsOf(*stack), map[string]string{tagLambdaVersion: l.session.opts.Version})),
	})
}

// hasImage reports whether the repository has an image with that tag. Without
// permission to look it reports false, and pushing decides.
func (l *load) hasImage(ctx context.Context, tag string) (bool, error) {
	err := l.registry.call(ctx, "DescribeImages", map[string]any{
		"repositoryName": l.name + repositorySuffix, "imageIds": []any{map[string]string{"imageTag": tag}},
	}, nil)
	code := errorCode(err)
	if code == "ImageNotFoundException" || code == "RepositoryNotFoundException" || isDenied(err) {
		return false, nil
	}
	return err == nil, err
}

// buildImage builds the image, once.
func (l *load) buildImage(ctx context.Context) error {
	if l.docker != nil {
		return nil
	}

	d, err := newDocker(ctx)
	if err != nil {
		return l.refuseCode(ctx, err)
	}

	l.docker = d

	done := l.opts.Step("building the image with docker")
	err = d.build(ctx, l.content)
	done(err)
	// The next attempt has to build the image again.
	if err != nil {
		l.docker = nil
		d.close(ctx)
		return l.refuseCode(ctx, err)
	}
	return nil
}

// pushImage pushes the image under its tag and as latest.
func (l *load) pushImage(ctx context.Context, repository string, d *LoadDeployment) error {
	d.Image = repository + ":" + l.content.tag()

	user, password, err := l.registryLogin(ctx)
	if err != nil {
		return err
	}

	done := l.opts.Step("pushing the image to " + repository)
	err = l.docker.push(ctx, repository, user, password, l.content.tag(), "latest")
	done(err)
	d.Pushed = err == nil

	return l.refuseCode(ctx, err)
}

// registryLogin returns the credentials for the registry of the account.
func (l *load) registryLogin(ctx context.Context) (user, password string, err error) {
	var out struct {
		AuthorizationData []struct{ AuthorizationToken string }
	}
	if err := l.registry.call(ctx, "GetAuthorizationToken", struct{}{}, &out); err != nil {
		return "", "", err
	}

	if len(out.AuthorizationData) == 0 {
		return "", "", errors.New("ECR returned no token")
	}

	token, err := base64.StdEncoding.DecodeString(out.AuthorizationData[0].AuthorizationToken)
	user, password, ok := strings.Cut(string(token), ":")
	// The error has the length only, because the token is a password.
	if err != nil || !ok {
		return "", "", fmt.Errorf("ECR returned an invalid token of %d bytes", len(token))
	}

	return user, password, nil
}
