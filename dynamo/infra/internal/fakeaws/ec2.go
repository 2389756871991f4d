package fakeaws

import (
	"fmt"
	"slices"
)

// Network is the VPCs of a Cloud.
type Network struct {
	Subnets     map[string]string // subnet to its VPC
	RouteTables []RouteTable
	Endpoints   []Endpoint
}

// RouteTable is a route table of a VPC.
type RouteTable struct {
	ID, VPC string
	Subnets []string // associated with it
	Main    bool     // of its VPC
}

// Endpoint is a VPC endpoint.
type Endpoint struct{ ID, VPC, Service, State string }

// networkOps lists the operations of EC2.
var networkOps = []string{"DescribeSubnets", "DescribeRouteTables", "DescribeVpcEndpoints"}

// filters returns the filters of a request.
func filters(r *Request) map[string][]string {
	all := map[string][]string{}
	for i := 1; r.Form.Has(fmt.Sprintf("Filter.%d.Name", i)); i++ {
		name := r.Form.Get(fmt.Sprintf("Filter.%d.Name", i))
		for j := 1; r.Form.Has(fmt.Sprintf("Filter.%d.Value.%d", i, j)); j++ {
			all[name] = append(all[name], r.Form.Get(fmt.Sprintf("Filter.%d.Value.%d", i, j)))
		}
	}
	return all
}

// serveEC2 answers EC2.
func (c *Cloud) serveEC2(r *Request) *Reply {
	by := filters(r)
	// A filter that the request lacks lets everything through.
	fits := func(name, value string) bool { return by[name] == nil || slices.Contains(by[name], value) }

	text := ""
	switch r.Op {
	case "DescribeSubnets":
		text = "<subnetSet>"
		for i := 1; r.Form.Has(fmt.Sprintf("SubnetId.%d", i)); i++ {
			id := r.Form.Get(fmt.Sprintf("SubnetId.%d", i))
			vpc, ok := c.Network.Subnets[id]
			if !ok {
				return ErrorReply(r, 400, "InvalidSubnetID.NotFound", "The subnet ID '"+id+"' does not exist")
			}
			text += fmt.Sprintf("<item><subnetId>%s</subnetId><vpcId>%s</vpcId></item>", id, vpc)
		}
		text += "</subnetSet>"
	case "DescribeRouteTables":
		text = "<routeTableSet>"
		for _, t := range c.Network.RouteTables {
			if fits("vpc-id", t.VPC) {
				text += t.xml()
			}
		}
		text += "</routeTableSet>"
	case "DescribeVpcEndpoints":
		text = "<vpcEndpointSet>"
		for _, e := range c.Network.Endpoints {
			if fits("vpc-id", e.VPC) && fits("service-name", e.Service) && fits("vpc-endpoint-state", e.State) {
				text += fmt.Sprintf("<item><vpcEndpointId>%s</vpcEndpointId></item>", e.ID)
			}
		}
		text += "</vpcEndpointSet>"
	}

	return xmlReply(200, fmt.Sprintf("<%[1]sResponse>%[2]s</%[1]sResponse>", r.Op, text))
}

func (t RouteTable) xml() string {
	text := fmt.Sprintf("<item><routeTableId>%s</routeTableId><vpcId>%s</vpcId><associationSet>", t.ID, t.VPC)
	if t.Main {
		text += "<item><main>true</main></item>"
	}
	for _, subnet := range t.Subnets {
		text += fmt.Sprintf("<item><main>false</main><subnetId>%s</subnetId></item>", subnet)
	}
	return text + "</associationSet></item>"
}

func ec2Error(status int, code, message string) *Reply {
	return xmlReply(status,
		fmt.Sprintf("<Response><Errors><Error><Code>%s</Code><Message>%s</Message></Error></Errors></Response>",
			code, escapeXML(message)))
}
