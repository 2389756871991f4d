package cli_test

import (
	"encoding/xml"
	"net/http"
	"strings"
	"testing"
)

// emulatedNetwork returns the VPC that the emulator has from the start, and two of
// its subnets, separated by a comma.
func emulatedNetwork(t *testing.T, url string) (vpc, subnets string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url,
		strings.NewReader("Action=DescribeSubnets"))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization",
		"AWS4-HMAC-SHA256 Credential=test/20260504/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var found struct {
		Subnets []string `xml:"subnetSet>item>subnetId"`
		VPCs    []string `xml:"subnetSet>item>vpcId"`
	}
	if err := xml.NewDecoder(response.Body).Decode(&found); err != nil || len(found.Subnets) < 2 {
		t.Fatalf("%v, %v", found, err)
	}
	return found.VPCs[0], found.Subnets[0] + "," + found.Subnets[1]
}
