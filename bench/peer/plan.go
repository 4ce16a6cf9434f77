package main

import (
	"fmt"
	"math"
	"sort"

	corev1 "k8s.io/api/core/v1"

	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	reqs "sigs.k8s.io/karpenter/pkg/scheduling"
)

// plan has the shape of `joiner plan -o json`, so that the same checker can judge both.
type plan struct {
	APIVersion    string              `json:"apiVersion"`
	Kind          string              `json:"kind"`
	Nodes         []planNode          `json:"nodes"`
	Unschedulable []planUnschedulable `json:"unschedulable"`
	Totals        planTotals          `json:"totals"`
}

type planNode struct {
	Name                string   `json:"name"`
	Existing            bool     `json:"existing"`
	NodePool            string   `json:"nodePool,omitempty"`
	InstanceType        string   `json:"instanceType,omitempty"`
	Zone                string   `json:"zone,omitempty"`
	CapacityType        string   `json:"capacityType,omitempty"`
	PricePerHour        float64  `json:"pricePerHour,omitempty"`
	InstanceTypeOptions []string `json:"instanceTypeOptions,omitempty"`
	Pods                []string `json:"pods"`
}

type planUnschedulable struct {
	Pod     string   `json:"pod"`
	Reasons []string `json:"reasons"`
}

type planTotals struct {
	NewNodes          int     `json:"newNodes"`
	ExistingNodesUsed int     `json:"existingNodesUsed"`
	Pods              int     `json:"pods"`
	Unschedulable     int     `json:"unschedulable"`
	PricePerHour      float64 `json:"pricePerHour"`
}

// describe writes the results down. A new node is shown at its cheapest remaining offering, the one a launch aims at.
func describe(results scheduling.Results) *plan {
	p := &plan{APIVersion: "joiner.sh/v1alpha1", Kind: "Plan", Nodes: []planNode{}, Unschedulable: []planUnschedulable{}}
	for _, existing := range results.ExistingNodes {
		if len(existing.Pods) > 0 {
			p.Nodes = append(p.Nodes, planNode{Name: existing.Name(), Existing: true, Pods: podNames(existing.Pods)})
			p.Totals.ExistingNodesUsed++
			p.Totals.Pods += len(existing.Pods)
		}
	}
	sort.Slice(p.Nodes, func(i, j int) bool { return p.Nodes[i].Name < p.Nodes[j].Name })
	for index, claim := range results.NewNodeClaims {
		node := newNode(claim)
		node.Name = fmt.Sprintf("%s-%d", claim.NodePoolName, index+1)
		p.Nodes = append(p.Nodes, node)
		p.Totals.NewNodes++
		p.Totals.Pods += len(claim.Pods)
		p.Totals.PricePerHour += node.PricePerHour
	}
	for pod, err := range results.PodErrors {
		p.Unschedulable = append(p.Unschedulable, planUnschedulable{Pod: podName(pod), Reasons: []string{err.Error()}})
	}
	sort.Slice(p.Unschedulable, func(i, j int) bool { return p.Unschedulable[i].Pod < p.Unschedulable[j].Pod })
	p.Totals.Unschedulable = len(p.Unschedulable)
	return p
}

// newNode lists the types that remain by their cheapest remaining offering, as a launch would; ties go to the smaller type
// name, zone and capacity type, so that the same result always prints the same.
func newNode(claim *scheduling.NodeClaim) planNode {
	var options []planNode
	for _, instanceType := range claim.InstanceTypeOptions {
		if option, found := cheapest(claim, instanceType); found {
			options = append(options, option)
		}
	}
	sort.Slice(options, func(i, j int) bool { return less(options[i], options[j]) })
	if len(options) == 0 {
		return planNode{NodePool: claim.NodePoolName, PricePerHour: math.Inf(1), Pods: podNames(claim.Pods)}
	}
	node := options[0]
	node.NodePool = claim.NodePoolName
	node.Pods = podNames(claim.Pods)
	for _, option := range options[:min(len(options), scheduling.MaxInstanceTypes)] {
		node.InstanceTypeOptions = append(node.InstanceTypeOptions, option.InstanceType)
	}
	return node
}

func cheapest(claim *scheduling.NodeClaim, instanceType *cloudprovider.InstanceType) (planNode, bool) {
	var best planNode
	found := false
	for _, offering := range instanceType.Offerings {
		if !offering.Available || !claim.Requirements.IsCompatible(offering.Requirements, reqs.AllowUndefinedWellKnownLabels) {
			continue
		}
		candidate := planNode{
			InstanceType: instanceType.Name,
			Zone:         offering.Zone(),
			CapacityType: offering.CapacityType(),
			PricePerHour: offering.Price,
		}
		if !found || less(candidate, best) {
			best, found = candidate, true
		}
	}
	return best, found
}

func less(a, b planNode) bool {
	switch {
	case a.PricePerHour != b.PricePerHour:
		return a.PricePerHour < b.PricePerHour
	case a.InstanceType != b.InstanceType:
		return a.InstanceType < b.InstanceType
	case a.Zone != b.Zone:
		return a.Zone < b.Zone
	default:
		return a.CapacityType < b.CapacityType
	}
}

func podNames(pods []*corev1.Pod) []string {
	names := make([]string, 0, len(pods))
	for _, pod := range pods {
		names = append(names, podName(pod))
	}
	sort.Strings(names)
	return names
}

func podName(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }
