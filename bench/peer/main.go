// Command peer solves one recorded input with the scheduler of Karpenter and prints one JSON object with its times,
// memory, node count and price, so that joiner can be compared with it on the same bytes.
//
// The input directory holds `types.json` (instance types in the KWOK provider's format, loaded by that provider's own
// loader) and `manifests.json` (one v1 List). What is measured:
//
//   - setupSeconds: reading the files and filling the cluster state; outside the headline.
//   - constructSeconds: building topology and scheduler for this batch of pods.
//   - packSeconds: the call to Solve.
//   - solveSeconds: the last two together, the headline.
//   - cpuSeconds: processor time of all threads in that span, garbage collection included.
//   - copySeconds: the copy of all state nodes which a provisioning cycle makes first; outside the headline.
//
// The one-minute limit of a provisioning cycle is set by the caller of Solve, which here is this program: it gives
// `-timeout` instead, so that every run finishes and packing can be judged.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"

	kwok "sigs.k8s.io/karpenter/kwok/cloudprovider"
	kwokoptions "sigs.k8s.io/karpenter/kwok/options"
	"sigs.k8s.io/karpenter/pkg/cloudprovider"
	"sigs.k8s.io/karpenter/pkg/controllers/provisioning/scheduling"
	"sigs.k8s.io/karpenter/pkg/controllers/state"
	"sigs.k8s.io/karpenter/pkg/events"
	"sigs.k8s.io/karpenter/pkg/operator/injection"
	"sigs.k8s.io/karpenter/pkg/operator/logging"
	"sigs.k8s.io/karpenter/pkg/operator/options"
	nodepoolutils "sigs.k8s.io/karpenter/pkg/utils/nodepool"
)

// report is what the program prints.
type report struct {
	SolveSeconds      float64 `json:"solveSeconds"`
	ConstructSeconds  float64 `json:"constructSeconds"`
	PackSeconds       float64 `json:"packSeconds"`
	CPUSeconds        float64 `json:"cpuSeconds"`
	CopySeconds       float64 `json:"copySeconds"`
	SetupSeconds      float64 `json:"setupSeconds"`
	PeakRSSBytes      int64   `json:"peakRssBytes"`
	Workers           int     `json:"workers"`
	MaxProcs          int     `json:"maxProcs"`
	Pods              int     `json:"pods"`
	Types             int     `json:"types"`
	ExistingNodes     int     `json:"existingNodes"`
	Nodes             int     `json:"nodes"`
	PricePerHour      float64 `json:"pricePerHour"`
	ExistingNodesUsed int     `json:"existingNodesUsed"`
	Unschedulable     int     `json:"unschedulable"`
	TimedOut          bool    `json:"timedOut"`
	Plan              *plan   `json:"plan,omitempty"`
}

type settings struct {
	dir               string
	workers           int
	timeout           time.Duration
	withPlan          bool
	ignorePreferences bool
}

func main() {
	var s settings
	flag.IntVar(&s.workers, "workers", 5, "workers that try candidates in parallel (5 in the original's own benchmark)")
	flag.DurationVar(&s.timeout, "timeout", time.Hour, "time limit of one Solve")
	flag.BoolVar(&s.withPlan, "plan", false, "also print where every pod goes")
	flag.BoolVar(&s.ignorePreferences, "ignore-preferences", false, "run with the preference policy Ignore")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: peer [flags] DIRECTORY   (with manifests.json and types.json)")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	s.dir = flag.Arg(0)

	out, err := run(s)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, "error: writing the report:", err)
		os.Exit(1)
	}
}

func run(s settings) (*report, error) {
	// Log lines of the scheduler are formatted even when nobody reads them; the original's benchmark drops them too.
	log.SetLogger(logging.NopLogger)
	ctx := operatorContext(s)

	setupStart := time.Now()
	types, err := kwok.ConstructInstanceTypes(kwokoptions.ToContext(ctx, &kwokoptions.Options{
		InstanceTypesFilePath: filepath.Join(s.dir, "types.json"),
	}))
	if err != nil {
		return nil, err
	}
	in, err := readManifests(filepath.Join(s.dir, "manifests.json"))
	if err != nil {
		return nil, err
	}
	nodepoolutils.OrderByWeight(in.pools)
	kube, err := newMemoryClient(in)
	if err != nil {
		return nil, err
	}
	clk := &clock.RealClock{}
	cluster := state.NewCluster(clk, kube, kwok.NewCloudProvider(ctx, kube, types))
	if err := fillCluster(ctx, cluster, in); err != nil {
		return nil, err
	}
	typesByPool := map[string][]*cloudprovider.InstanceType{}
	for _, pool := range in.pools {
		typesByPool[pool.Name] = types
	}
	setup := time.Since(setupStart)

	copyStart := time.Now()
	nodes := cluster.DeepCopyNodes().Active()
	copied := time.Since(copyStart)

	opts := []scheduling.Options{
		scheduling.NumConcurrentReconciles(s.workers),
		scheduling.DisableReservedCapacityFallback,
		scheduling.MinValuesPolicy(options.MinValuesPolicyStrict),
	}
	if s.ignorePreferences {
		opts = append(opts, scheduling.IgnorePreferences)
	}
	cpuBefore, err := cpuTime()
	if err != nil {
		return nil, err
	}
	constructStart := time.Now()
	topology, err := scheduling.NewTopology(ctx, kube, cluster, nodes, in.pools, typesByPool, in.pending, opts...)
	if err != nil {
		return nil, fmt.Errorf("building topology: %w", err)
	}
	scheduler := scheduling.NewScheduler(ctx, kube, in.pools, cluster, nodes, topology, typesByPool, in.daemonPods(),
		events.NewRecorder(&record.FakeRecorder{}), clk, nil, nil, opts...)
	construct := time.Since(constructStart)

	limited, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	packStart := time.Now()
	results, err := scheduler.Solve(limited, in.pending)
	pack := time.Since(packStart)
	cpuAfter, cpuErr := cpuTime()
	if cpuErr != nil {
		return nil, cpuErr
	}
	timedOut := errors.Is(err, context.DeadlineExceeded)
	if err != nil && !timedOut {
		return nil, fmt.Errorf("solving: %w", err)
	}
	peak, err := peakRSS()
	if err != nil {
		return nil, err
	}

	p := describe(results)
	out := &report{
		SolveSeconds:      (construct + pack).Seconds(),
		ConstructSeconds:  construct.Seconds(),
		PackSeconds:       pack.Seconds(),
		CPUSeconds:        (cpuAfter - cpuBefore).Seconds(),
		CopySeconds:       copied.Seconds(),
		SetupSeconds:      setup.Seconds(),
		PeakRSSBytes:      peak,
		Workers:           s.workers,
		MaxProcs:          runtime.GOMAXPROCS(0),
		Pods:              len(in.pending),
		Types:             len(types),
		ExistingNodes:     len(in.nodes),
		Nodes:             p.Totals.NewNodes,
		PricePerHour:      p.Totals.PricePerHour,
		ExistingNodesUsed: p.Totals.ExistingNodesUsed,
		Unschedulable:     p.Totals.Unschedulable,
		TimedOut:          timedOut,
	}
	if s.withPlan {
		out.Plan = p
	}
	return out, nil
}

// operatorContext carries the settings a running operator has by default, except for the number of workers.
func operatorContext(s settings) context.Context {
	o := &options.Options{
		CPURequests:       int64(s.workers) * 1000,
		MemoryLimit:       -1,
		PreferencePolicy:  options.PreferencePolicyRespect,
		MinValuesPolicy:   options.MinValuesPolicyStrict,
		IgnoreDRARequests: true,
		FeatureGates:      options.FeatureGates{ReservedCapacity: true},
	}
	if s.ignorePreferences {
		o.PreferencePolicy = options.PreferencePolicyIgnore
	}
	return options.ToContext(injection.WithControllerName(context.Background(), "provisioner"), o)
}

// cpuTime is the processor time of this process so far, in all its threads.
func cpuTime() (time.Duration, error) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0, fmt.Errorf("reading processor time: %w", err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano()), nil
}

// peakRSS is the highest resident size of this process so far, from the kernel.
func peakRSS() (int64, error) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, fmt.Errorf("reading peak memory: %w", err)
	}
	for _, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) >= 2 && fields[0] == "VmHWM:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			if err != nil {
				return 0, fmt.Errorf("reading peak memory: %w", err)
			}
			return kib * 1024, nil
		}
	}
	return 0, errors.New("reading peak memory: no VmHWM in /proc/self/status")
}
