package infra

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/aws"
	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/zeroae/zae-limiter-go/dynamo"
)

// Tags that say whose a stack is, and which versions are in it. Python's tool
// reads and writes the same.
const (
	tagManagedBy     = "ManagedBy"
	tagName          = "zae-limiter:name"
	tagType          = "zae-limiter:type"
	tagVersion       = "zae-limiter:version"
	tagSchemaVersion = "zae-limiter:schema-version"
	tagLambdaVersion = "zae-limiter:lambda-version"

	manager     = "zae-limiter"
	typeLimiter = "limiter"

	legacyPrefix = "ZAEL-" // of stacks that older tools made
)

// maxTags is what remains of the 50 a stack may have.
const maxTags = 44

// discoveryTags are how a stack is found.
func discoveryTags(name string) map[string]string {
	return map[string]string{tagManagedBy: manager, tagName: strings.TrimPrefix(name, legacyPrefix), tagType: typeLimiter}
}

// versionTags say what is deployed.
func versionTags(version string) map[string]string {
	return map[string]string{tagVersion: version, tagSchemaVersion: dynamo.SchemaVersion, tagLambdaVersion: version}
}

// merged is all of them; later ones win.
func merged(tags ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, some := range tags {
		maps.Copy(all, some)
	}
	return all
}

// sentTags are tags as CloudFormation takes them, in order.
func sentTags(tags map[string]string) []cfn.Tag {
	var list []cfn.Tag
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, cfn.Tag{Key: aws.String(key), Value: aws.String(tags[key])})
	}
	return list
}

// tagsOf are those of a stack, without the service's own, which nobody may send.
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

func checkTags(tags map[string]string) error {
	own, folded := 0, map[string]string{}
	for _, managed := range managedTags {
		folded[strings.ToLower(managed)] = managed
	}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		if !isManagedTag(key) {
			own++
		}
		if twin, ok := folded[strings.ToLower(key)]; ok && twin != key {
			return invalid("tag", key, fmt.Sprintf("must differ from %s in more than capitals, because roles could not have both", twin))
		}
		folded[strings.ToLower(key)] = key
		if err := checkTag(key, tags[key]); err != nil {
			return err
		}
	}
	if own > maxTags {
		return invalid("tags", strconv.Itoa(own), fmt.Sprintf("must be at most %d, because a stack may have 50 and zae-limiter adds its own", maxTags))
	}
	return nil
}

func checkTag(key, value string) error {
	const longestKey, longestValue = 128, 256
	refuse := func(reason string) error { return invalid("tag", key+"="+value, reason) }
	switch {
	case key == "":
		return refuse("must have a key")
	case utf8.RuneCountInString(key) > longestKey:
		return refuse(fmt.Sprintf("must have a key of at most %d characters", longestKey))
	case isReservedTag(key):
		return refuse("must not have a key that begins with aws:, which is reserved")
	case value == "":
		return refuse("must have a value, because CloudFormation takes no tag without one")
	case utf8.RuneCountInString(value) > longestValue:
		return refuse(fmt.Sprintf("must have a value of at most %d characters", longestValue))
	case !onlyRunes(key+value, isTagRune):
		return refuse(`must be letters, digits, spaces or "_.:/=+-@"`)
	}
	return nil
}

func isTagRune(r rune) bool {
	return unicode.In(r, unicode.L, unicode.Z, unicode.N) || strings.ContainsRune("_.:/=+-@", r)
}
