package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	v1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/utils/daemonset"
)

// input is a manifests file, sorted by what the scheduler does with the objects.
type input struct {
	pools      []*v1.NodePool
	claims     []*v1.NodeClaim
	nodes      []*corev1.Node
	pending    []*corev1.Pod
	bound      []*corev1.Pod
	daemonSets []*appsv1.DaemonSet
	namespaces []client.Object
}

// readManifests reads item after item, so that a large file is never in memory as text.
func readManifests(path string) (*input, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	decoder := json.NewDecoder(file)
	in := &input{}
	if err := skipToItems(decoder); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for index := 0; decoder.More(); index++ {
		var raw json.RawMessage
		if err := decoder.Decode(&raw); err != nil {
			return nil, fmt.Errorf("%s: item %d: %w", path, index, err)
		}
		if err := in.add(raw, index); err != nil {
			return nil, fmt.Errorf("%s: item %d: %w", path, index, err)
		}
	}
	return in, nil
}

// skipToItems leaves the decoder at the first item of the List. Fields in front of `items` have to be scalars.
func skipToItems(decoder *json.Decoder) error {
	for {
		token, err := decoder.Token()
		if err != nil {
			return fmt.Errorf("no `items` found: %w", err)
		}
		if token == "items" {
			open, err := decoder.Token()
			if err != nil || open != json.Delim('[') {
				return fmt.Errorf("`items` is not a list")
			}
			return nil
		}
	}
}

func (in *input) add(raw json.RawMessage, index int) error {
	var head struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return err
	}
	var err error
	switch head.Kind {
	case "NodePool":
		in.pools, err = appendDecoded(in.pools, raw)
	case "NodeClaim":
		in.claims, err = appendDecoded(in.claims, raw)
	case "Node":
		in.nodes, err = appendDecoded(in.nodes, raw)
	case "DaemonSet":
		in.daemonSets, err = appendDecoded(in.daemonSets, raw)
	case "Namespace":
		ns := &corev1.Namespace{}
		err = json.Unmarshal(raw, ns)
		in.namespaces = append(in.namespaces, ns)
	case "Pod":
		pod := &corev1.Pod{}
		if err = json.Unmarshal(raw, pod); err != nil {
			break
		}
		if pod.Namespace == "" {
			pod.Namespace = "default"
		}
		if pod.UID == "" {
			// The scheduler caches by uid: two pods without one would be taken for the same pod.
			pod.UID = types.UID(fmt.Sprintf("item-%d", index))
		}
		if pod.Spec.NodeName == "" {
			in.pending = append(in.pending, pod)
		} else {
			in.bound = append(in.bound, pod)
		}
	case "KWOKNodeClass":
		// Only named by pools; it carries no settings.
	default:
		return fmt.Errorf("kind %q is not supported", head.Kind)
	}
	return err
}

func appendDecoded[T any](list []*T, raw json.RawMessage) ([]*T, error) {
	object := new(T)
	if err := json.Unmarshal(raw, object); err != nil {
		return list, err
	}
	return append(list, object), nil
}

// daemonPods are the pods each new node will carry.
func (in *input) daemonPods() []*corev1.Pod {
	var pods []*corev1.Pod
	for _, ds := range in.daemonSets {
		pods = append(pods, daemonset.PodForDaemonSet(ds))
	}
	return pods
}

// fillCluster hands over nodes and bound pods the way the informer controllers of a running operator do.
func fillCluster(ctx context.Context, cluster *state.Cluster, in *input) error {
	for _, claim := range in.claims {
		cluster.UpdateNodeClaim(claim)
	}
	for _, node := range in.nodes {
		if err := cluster.UpdateNode(ctx, node); err != nil {
			return fmt.Errorf("node %q: %w", node.Name, err)
		}
	}
	for _, pod := range in.bound {
		if err := cluster.UpdatePod(ctx, pod); err != nil {
			return fmt.Errorf("pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}
