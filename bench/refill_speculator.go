package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/zeroae/zae-limiter-go/internal/bucket"
)

// speculator is a taker without a cache, like Python services: it first takes
// from the stored balance, without refill, and refills only after a refusal.
type speculator struct {
	client *dynamodb.Client
	key    map[string]types.AttributeValue
}

func newSpeculator(endpoint, ns, entity string) *speculator {
	return &speculator{newRawClient(endpoint, tripCounter{tunedClient()}), bucketAt(ns, entity)}
}

func bucketAt(ns, entity string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{"PK": text(ns + "/ENTITY#" + entity), "SK": text("#BUCKET#" + benchResource)}
}

// maxRefills is the number of refills for one call, if others interfere.
const maxRefills = 8

func (s *speculator) take(ctx context.Context, now time.Time) (bool, error) {
	stored, err := s.update(ctx, "ADD b_rpm_tk :rpm, b_tpm_tk :tpm, b_rpm_tc :r, b_tpm_tc :t",
		"b_rpm_tk >= :r AND b_tpm_tk >= :t",
		map[string]int64{":rpm": -rpmTaken, ":tpm": -tpmTaken})

	for range maxRefills {
		if err != nil || stored == nil {
			return err == nil, err
		}

		was := decodeBucket(stored)
		is := was.at(now.UnixMilli())
		if is.rpm < rpmTaken || is.tpm < tpmTaken {
			return false, nil
		}

		// Another taker may have changed the bucket since it was read, so the
		// write needs the same balances.
		stored, err = s.update(ctx, "SET rf = :now ADD b_rpm_tk :rpm, b_tpm_tk :tpm, b_rpm_tc :r, b_tpm_tc :t",
			"rf = :seen AND b_rpm_tk = :rpmSeen AND b_tpm_tk = :tpmSeen", map[string]int64{
				":now": is.refilled, ":rpm": is.rpm - was.rpm - rpmTaken, ":tpm": is.tpm - was.tpm - tpmTaken,
				":seen": was.refilled, ":rpmSeen": was.rpm, ":tpmSeen": was.tpm,
			})
	}
	return false, err
}

// The amounts of a call, in thousandths.
const rpmTaken, tpmTaken = bucket.Milli, tpmEach * bucket.Milli

// update changes the bucket. If the condition fails, it returns the stored
// bucket, otherwise nil.
func (s *speculator) update(
	ctx context.Context, change, condition string, numbers map[string]int64,
) (map[string]types.AttributeValue, error) {
	values := map[string]types.AttributeValue{":r": number(rpmTaken), ":t": number(tpmTaken)}
	for name, n := range numbers {
		values[name] = number(n)
	}

	_, err := s.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: aws.String(refillTable), Key: s.key, UpdateExpression: &change, ConditionExpression: &condition,
		ExpressionAttributeValues:           values,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})

	if refused, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return refused.Item, nil
	}
	return nil, err
}

// read returns the stored bucket.
func (s *speculator) read(ctx context.Context) (storedBucket, error) {
	out, err := s.client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: aws.String(refillTable), Key: s.key, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return storedBucket{}, err
	}
	return decodeBucket(out.Item), nil
}

func (*speculator) close() error { return nil }

// storedBucket holds the balances of a bucket, in thousandths, and the time of
// its refill.
type storedBucket struct{ refilled, rpm, tpm int64 }

func decodeBucket(it map[string]types.AttributeValue) (b storedBucket) {
	for attr, to := range map[string]*int64{"rf": &b.refilled, "b_rpm_tk": &b.rpm, "b_tpm_tk": &b.tpm} {
		if n, ok := it[attr].(*types.AttributeValueMemberN); ok {
			// Our store writes whole numbers.
			*to, _ = strconv.ParseInt(n.Value, 10, 64)
		}
	}
	return b
}

// at returns the bucket refilled up to now.
func (b storedBucket) at(now int64) storedBucket {
	limits := refillLimits()
	return storedBucket{
		refilled: max(now, b.refilled),
		rpm:      bucket.Advance(b.rpm, b.refilled, now, rateOf(limits[0])),
		tpm:      bucket.Advance(b.tpm, b.refilled, now, rateOf(limits[1])),
	}
}
