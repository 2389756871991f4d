package infra

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Tag adds the tags of Options.Stack to a stack, and those by which List finds it.
// It does not change the template, the parameters or other tags. To remove a tag,
// deploy without it.
//
// It returns the errors of Deploy, and limiter.ErrNotFound if there is no stack.
func Tag(ctx context.Context, name string, opts *Options) (Deployment, error) {
	s, err := newUpdateSession(ctx, "tag", name, opts)
	if err != nil {
		return Deployment{}, err
	}
	d, err := s.tag(ctx)
	d.Complete = err == nil && !isBusyStatus(d.Status)
	return d, translateError(ctx, "tag", err)
}

func (s *session) tag(ctx context.Context) (Deployment, error) {
	return s.run(ctx, plan{s.notFound, func(ctx context.Context, stack *cfn.Stack) (Deployment, error) {
		before := tagsOf(*stack)
		after := mergeTags(before, s.opts.Stack.Tags, managedTagsIn(before), s.discoveryTags())
		if maps.Equal(before, after) {
			return s.deployment(stack, "unchanged"), nil
		}

		// New tags that are valid by themselves may be too many beside the
		// deployed ones.
		if err := checkTags(after); err != nil {
			return Deployment{}, err
		}

		return s.apply(ctx, stack, nil, cloudformation.CreateChangeSetInput{
			UsePreviousTemplate: aws.Bool(true), Parameters: previousParameters(*stack, nil), Tags: cfnTags(after),
		})
	}})
}

// startTagUpdate updates the tags without a change set, for emulators whose change
// sets ignore tags. It omits parameters without a value, because moto treats an
// update with all parameters as no update.
func (s *session) startTagUpdate(ctx context.Context, stack *cfn.Stack, tags []cfn.Tag) (*watcher, error) {
	w, err := s.newWatcher(ctx, *stack.StackId)
	if err != nil {
		return nil, err
	}

	in := &cloudformation.UpdateStackInput{
		StackName: stack.StackName, UsePreviousTemplate: aws.Bool(true), Tags: tags,
		Capabilities:       []cfn.Capability{cfn.CapabilityCapabilityNamedIam},
		ClientRequestToken: aws.String("zae-limiter-" + rand.Text()),
	}

	// Only our own template promises that a parameter without a value has an
	// empty default.
	for _, p := range stack.Parameters {
		if aws.ToString(p.ParameterValue) != "" || !isGoStack(stack) {
			in.Parameters = append(in.Parameters, cfn.Parameter{
				ParameterKey: p.ParameterKey, UsePreviousValue: aws.Bool(true),
			})
		}
	}

	if _, err := s.stacks.UpdateStack(ctx, in); isNoUpdate(errorText(err)) {
		return nil, nil
	} else if err != nil {
		return nil, s.startError(ctx, opUpdate, err)
	}

	return w, nil
}

// managedTagsIn returns the tags of zae-limiter itself.
func managedTagsIn(tags map[string]string) map[string]string {
	own := maps.Clone(tags)
	maps.DeleteFunc(own, func(key, _ string) bool { return !isManagedTag(key) })
	return own
}

// Tags for the owner and the versions of a stack. The Python tool reads and writes
// the same.
const (
	tagManagedBy     = "ManagedBy"
	tagName          = "zae-limiter:name"
	tagType          = "zae-limiter:type"
	tagVersion       = "zae-limiter:version"
	tagSchemaVersion = "zae-limiter:schema-version"
	tagLambdaVersion = "zae-limiter:lambda-version"

	manager     = "zae-limiter"
	typeLimiter = "limiter"
	typeLoad    = "load-test"

	legacyPrefix = "ZAEL-" // name prefix of stacks of older tools
)

// maxTags is the number of tags for the owner, of the 50 that a stack can have.
const maxTags = 44

// discoveryTags returns the tags by which List and ListLoads find a stack.
func (s *session) discoveryTags() map[string]string {
	return map[string]string{
		tagManagedBy: manager, tagName: strings.TrimPrefix(s.target, legacyPrefix), tagType: s.kind,
	}
}

// versionTags returns the tags for the deployed versions.
func versionTags(version string) map[string]string {
	return map[string]string{tagVersion: version, tagSchemaVersion: dynamo.SchemaVersion, tagLambdaVersion: version}
}

// mergeTags returns all tags in one map; later ones win.
func mergeTags(tags ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, some := range tags {
		maps.Copy(all, some)
	}
	return all
}

// cfnTags returns tags for a request to CloudFormation, sorted.
func cfnTags(tags map[string]string) []cfn.Tag {
	var list []cfn.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, cfn.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return list
}

// tagsOf returns the tags of a stack, without reserved ones, which a request must
// not contain.
func tagsOf(stack cfn.Stack) map[string]string {
	tags := map[string]string{}
	for _, tag := range stack.Tags {
		if key := aws.ToString(tag.Key); !isReservedTag(key) {
			tags[key] = aws.ToString(tag.Value)
		}
	}
	return tags
}

func isReservedTag(key string) bool {
	const reserved = "aws:"
	return len(key) >= len(reserved) && strings.EqualFold(key[:len(reserved)], reserved)
}

var managedTags = []string{tagManagedBy, tagName, tagType, tagVersion, tagSchemaVersion, tagLambdaVersion}

func isManagedTag(key string) bool { return slices.Contains(managedTags, key) }

// checkTags validates the tags of a stack.
func checkTags(tags map[string]string) error {
	// IAM treats keys that differ only in case as one.
	own, folded := 0, map[string]string{}
	for _, managed := range managedTags {
		folded[strings.ToLower(managed)] = managed
	}

	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if !isManagedTag(key) {
			own++
		}

		if twin, ok := folded[strings.ToLower(key)]; ok && twin != key {
			return invalid("tag", key,
				fmt.Sprintf("must differ from %s in more than case, because a role cannot have both", twin))
		}

		folded[strings.ToLower(key)] = key
		if err := checkTag(key, tags[key]); err != nil {
			return err
		}
	}

	if own > maxTags {
		return invalid("tags", strconv.Itoa(own),
			fmt.Sprintf("must be at most %d, because a stack may have 50 and zae-limiter adds its own", maxTags))
	}

	return nil
}

func checkTag(key, value string) error {
	const maxKey, maxValue = 128, 256
	refuse := func(reason string) error { return invalid("tag", key+"="+value, reason) }

	switch {
	case key == "":
		return refuse("must have a key")
	case utf8.RuneCountInString(key) > maxKey:
		return refuse(fmt.Sprintf("must have a key of at most %d characters", maxKey))
	case isReservedTag(key):
		return refuse("must not have a key that begins with aws:, which is reserved")
	case value == "":
		return refuse("must have a value, because CloudFormation accepts no empty one")
	case utf8.RuneCountInString(value) > maxValue:
		return refuse(fmt.Sprintf("must have a value of at most %d characters", maxValue))
	case !onlyRunes(key+value, isTagRune):
		return refuse(`must be letters, digits, spaces or "_.:/=+-@"`)
	}
	return nil
}

func isTagRune(r rune) bool {
	return unicode.In(r, unicode.L, unicode.Z, unicode.N) || strings.ContainsRune("_.:/=+-@", r)
}
