package main

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// memoryClient answers what the scheduler asks about pods and nodes from indexed maps, as an informer cache would
// (copies included). The generic fake client scans and re-encodes every object on each list, which would be charged to
// the scheduler when a cluster has 10,000 nodes. All other kinds go to the fake client.
//
// Only bound pods are stored: pending ones are excluded from topology counts anyway, and the original's own benchmark
// has none in its client either.
type memoryClient struct {
	client.Client
	nodes           map[string]*corev1.Node
	podsByNode      map[string][]*corev1.Pod
	podsByNamespace map[string][]*corev1.Pod
}

func newMemoryClient(in *input) (*memoryClient, error) {
	m := &memoryClient{
		Client:          fake.NewFakeClient(),
		nodes:           map[string]*corev1.Node{},
		podsByNode:      map[string][]*corev1.Pod{},
		podsByNamespace: map[string][]*corev1.Pod{},
	}
	for _, node := range in.nodes {
		m.nodes[node.Name] = node
	}
	for _, pod := range in.bound {
		m.podsByNode[pod.Spec.NodeName] = append(m.podsByNode[pod.Spec.NodeName], pod)
		m.podsByNamespace[pod.Namespace] = append(m.podsByNamespace[pod.Namespace], pod)
	}
	for _, namespace := range in.namespaces {
		if err := m.Create(context.Background(), namespace); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *memoryClient) Get(ctx context.Context, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
	node, ok := object.(*corev1.Node)
	if !ok {
		return m.Client.Get(ctx, key, object, opts...)
	}
	stored, ok := m.nodes[key.Name]
	if !ok {
		return errors.NewNotFound(schema.GroupResource{Resource: "nodes"}, key.Name)
	}
	stored.DeepCopyInto(node)
	return nil
}

func (m *memoryClient) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	pods, ok := list.(*corev1.PodList)
	if !ok {
		return m.Client.List(ctx, list, opts...)
	}
	var asked client.ListOptions
	asked.ApplyOptions(opts)
	pods.Items = nil
	for _, pod := range m.candidates(asked) {
		if asked.Namespace != "" && pod.Namespace != asked.Namespace {
			continue
		}
		if asked.LabelSelector != nil && !asked.LabelSelector.Matches(labelsOf(pod.Labels)) {
			continue
		}
		if asked.UnsafeDisableDeepCopy != nil && *asked.UnsafeDisableDeepCopy {
			pods.Items = append(pods.Items, *pod)
		} else {
			pods.Items = append(pods.Items, *pod.DeepCopy())
		}
	}
	return nil
}

// candidates uses the index that fits the question best.
func (m *memoryClient) candidates(asked client.ListOptions) []*corev1.Pod {
	if asked.FieldSelector != nil {
		if name, found := asked.FieldSelector.RequiresExactMatch("spec.nodeName"); found {
			return m.podsByNode[name]
		}
	}
	if asked.Namespace != "" {
		return m.podsByNamespace[asked.Namespace]
	}
	var all []*corev1.Pod
	for _, pods := range m.podsByNamespace {
		all = append(all, pods...)
	}
	return all
}

// labelsOf is a label set that selectors can ask.
type labelsOf map[string]string

func (l labelsOf) Has(key string) bool { _, ok := l[key]; return ok }

func (l labelsOf) Get(key string) string { return l[key] }

func (l labelsOf) Lookup(key string) (string, bool) { value, ok := l[key]; return value, ok }
