// Command informer follows the config maps of a namespace with client-go's informer, the way controllers written in Go do, and
// prints one line of JSON for each event that its handler gets. It ends when standard input ends.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
)

// line is what is printed: what happened to which object, its version, its value, and the version the handler knew before.
type line struct {
	Event   string `json:"event"`
	Name    string `json:"name,omitempty"`
	Version string `json:"version,omitempty"`
	Before  string `json:"before,omitempty"`
	Value   string `json:"value,omitempty"`
}

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: informer KUBECONFIG NAMESPACE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func run(kubeconfig, namespace string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()

	var mutex sync.Mutex
	encoder := json.NewEncoder(os.Stdout)
	say := func(l line) {
		mutex.Lock()
		defer mutex.Unlock()
		_ = encoder.Encode(l)
	}
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
		say(line{Event: "error", Value: err.Error()})
	}); err != nil {
		return err
	}
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(object any) {
			m := object.(*corev1.ConfigMap)
			say(line{Event: "added", Name: m.Name, Version: m.ResourceVersion, Value: m.Data["value"]})
		},
		UpdateFunc: func(old, object any) {
			m := object.(*corev1.ConfigMap)
			say(line{Event: "updated", Name: m.Name, Version: m.ResourceVersion,
				Before: old.(*corev1.ConfigMap).ResourceVersion, Value: m.Data["value"]})
		},
		DeleteFunc: func(object any) {
			if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
				object = gone.Obj
			}
			m := object.(*corev1.ConfigMap)
			say(line{Event: "deleted", Name: m.Name, Version: m.ResourceVersion, Value: m.Data["value"]})
		},
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	say(line{Event: "synced"})
	<-ctx.Done()
	return nil
}
