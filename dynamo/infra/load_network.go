package infra

import (
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"

	cfn "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// routeTables returns the route tables for a gateway endpoint, separated by commas,
// or "" if there shall be none. deployed is the load stack, or nil.
func (s *session) routeTables(ctx context.Context, load LoadStack, deployed *cfn.Stack) (string, error) {
	if err := s.checkSubnets(ctx, load); err != nil || load.NoDynamoDBEndpoint {
		return "", err
	}

	own, err := s.ownEndpoint(ctx, deployed)
	if err != nil {
		return "", err
	}

	if found, err := s.hasOtherEndpoint(ctx, load.VPC, own); err != nil || found {
		return "", err
	}

	return s.routeTablesOf(ctx, load)
}

// ownEndpoint returns the ID of the gateway endpoint of the load stack itself, or "".
func (s *session) ownEndpoint(ctx context.Context, deployed *cfn.Stack) (string, error) {
	if deployed == nil {
		return "", nil
	}
	return s.physicalID(ctx, deployed, endpointResource)
}

// checkSubnets refuses subnets that do not exist or are in another VPC.
func (s *session) checkSubnets(ctx context.Context, load LoadStack) error {
	args := url.Values{}
	for i, id := range load.Subnets {
		args.Set(fmt.Sprintf("SubnetId.%d", i+1), id)
	}

	var out struct {
		Subnets []struct {
			ID  string `xml:"subnetId"`
			VPC string `xml:"vpcId"`
		} `xml:"subnetSet>item"`
	}

	err := s.networks.submit(ctx, "DescribeSubnets", args, &out)
	if strings.HasPrefix(errorCode(err), "InvalidSubnetID") {
		return invalid("subnets", strings.Join(load.Subnets, ","), "must exist in region "+s.region+": "+errorText(err))
	}

	if err != nil {
		return err
	}

	for _, subnet := range out.Subnets {
		if subnet.VPC != load.VPC {
			return invalid("subnet", subnet.ID, fmt.Sprintf("must be in %s, and is in %s", load.VPC, subnet.VPC))
		}
	}
	return nil
}

// hasOtherEndpoint reports whether a VPC has a gateway endpoint for DynamoDB besides
// own.
func (s *session) hasOtherEndpoint(ctx context.Context, vpc, own string) (bool, error) {
	args := url.Values{}
	addFilters(args, "vpc-id", vpc, "service-name", "com.amazonaws."+s.region+".dynamodb", "vpc-endpoint-type",
		"Gateway", "vpc-endpoint-state", "available")
	var out struct {
		IDs []string `xml:"vpcEndpointSet>item>vpcEndpointId"`
	}
	err := s.networks.submit(ctx, "DescribeVpcEndpoints", args, &out)
	return slices.ContainsFunc(out.IDs, func(id string) bool { return id != own }), err
}

// routeTablesOf returns the route tables of the subnets, separated by commas. A
// subnet without one of its own uses the main one of its VPC.
func (s *session) routeTablesOf(ctx context.Context, load LoadStack) (string, error) {
	args := url.Values{}
	addFilters(args, "vpc-id", load.VPC)
	var out struct {
		Tables []struct {
			ID           string `xml:"routeTableId"`
			Associations []struct {
				Main   bool   `xml:"main"`
				Subnet string `xml:"subnetId"`
			} `xml:"associationSet>item"`
		} `xml:"routeTableSet>item"`
	}

	if err := s.networks.submit(ctx, "DescribeRouteTables", args, &out); err != nil {
		return "", err
	}

	of, main := map[string]string{}, ""
	for _, table := range out.Tables {
		for _, a := range table.Associations {
			if a.Subnet != "" {
				of[a.Subnet] = table.ID
			} else if a.Main {
				main = table.ID
			}
		}
	}

	var found []string
	// A subnet without a table of its own uses the main one of its VPC.
	for _, subnet := range load.Subnets {
		id := of[subnet]
		if id == "" {
			id = main
		}
		if id != "" {
			found = append(found, id)
		}
	}

	// Several subnets may share a table, and an endpoint takes each table once.
	slices.Sort(found)
	return strings.Join(slices.Compact(found), ","), nil
}

// addFilters adds filters to the arguments of a call, as pairs of name and value.
func addFilters(args url.Values, pairs ...string) {
	for i := 0; i < len(pairs); i += 2 {
		args.Set(fmt.Sprintf("Filter.%d.Name", i/2+1), pairs[i])
		args.Set(fmt.Sprintf("Filter.%d.Value.1", i/2+1), pairs[i+1])
	}
}
