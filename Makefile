# The commands that users of Karpenter's KWOK provider know. Chores for people who change joiner are in `cargo xtask`.

# The program, kubectl, and where joiner goes.
JOINER ?= target/release/joiner
KUBECTL ?= kubectl
NAMESPACE ?= kube-system
RELEASE ?= joiner
# Values of the chart: a file, and single ones (`SET=replicas=1,logLevel=debug`).
VALUES ?=
SET ?=
# The image that the Deployment runs, and what builds it.
IMAGE ?=
CONTAINER_TOOL ?= docker
# Who plays the kubelets of KWOK nodes: `controller`, or `none` for joiner itself.
KWOK ?= controller
KWOK_IMAGE ?= registry.k8s.io/kwok/kwok:v0.8.0
# Where `make gen_instance_types` writes.
INSTANCE_TYPES ?= examples/instance_types.json
# What `make delete` does with machines: `keep`, or `delete` to end them first.
MACHINES ?= keep

# A colon behind the last slash begins the tag.
image_name = $(shell printf %s '$(IMAGE)' | sed -E 's|:[^:/]+$$||')
image_tag = $(shell printf %s '$(IMAGE)' | sed -nE 's|.*:([^:/]+)$$|\1|p')
image_set = $(if $(IMAGE),--set controller.image.repository=$(image_name) --set controller.image.tag=$(or $(image_tag),latest))
manifests = $(JOINER) manifests --namespace $(NAMESPACE) --release $(RELEASE) $(if $(VALUES),--values $(VALUES)) $(if $(SET),--set '$(SET)') \
	$(image_set) $(if $(filter none,$(KWOK)),--set simulateKubelets=true)

.DEFAULT_GOAL := help
.PHONY: help build image test e2etests install-kwok uninstall-kwok apply delete gen_instance_types

help: ## Say what there is
	@awk -F ':.*## ' '/^[a-z0-9_-]+:.*## / {printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

target/release/joiner:
	cargo build --locked --release --package joiner

build: ## Build the program
	cargo build --locked --release --package joiner

image: ## Build the image IMAGE with CONTAINER_TOOL
	@test -n '$(IMAGE)' || { echo 'IMAGE is not set: make image IMAGE=registry.example.com/joiner:dev' >&2; exit 2; }
	@command -v $(CONTAINER_TOOL) >/dev/null || { echo 'no $(CONTAINER_TOOL) here; where there is one, it runs: $(CONTAINER_TOOL) build -f Containerfile -t $(IMAGE) .' >&2; exit 1; }
	$(CONTAINER_TOOL) build -f Containerfile -t $(IMAGE) .

test: ## Run the tests
	cargo test --locked --workspace

e2etests: ## Run the tests against a real control plane, which is built the first time
	cargo xtask control-plane build
	cargo xtask helm version
	CI=true cargo test --locked --workspace --test real --test charts --test doctor

install-kwok: ## Install the KWOK controller KWOK_IMAGE with its stages
	$(KUBECTL) create configmap kwok --namespace kube-system --from-file=kwok.yaml=tools/kwok/stages.yaml --dry-run=client -o yaml | $(KUBECTL) apply -f -
	sed 's|image: registry.k8s.io/kwok/kwok:.*|image: $(KWOK_IMAGE)|' tools/kwok/controller.yaml | $(KUBECTL) apply -f -

uninstall-kwok: ## Remove the KWOK controller; its nodes stop being ready
	$(KUBECTL) delete --ignore-not-found -f tools/kwok/controller.yaml
	$(KUBECTL) delete configmap kwok --namespace kube-system --ignore-not-found

apply: $(filter target/release/joiner,$(JOINER)) ## Install joiner and its definitions; KWOK=none plays kubelets without KWOK
	$(JOINER) manifests --chart joiner-crd | $(KUBECTL) apply --server-side -f -
	$(KUBECTL) get namespace $(NAMESPACE) >/dev/null 2>&1 || $(KUBECTL) create namespace $(NAMESPACE)
	$(manifests) | $(KUBECTL) apply -f -

delete: ## Remove joiner; MACHINES=delete ends its machines first, otherwise they stay with their pools and claims
ifeq ($(MACHINES),delete)
	! $(KUBECTL) get crd nodepools.karpenter.sh >/dev/null 2>&1 || $(KUBECTL) delete nodepools.karpenter.sh --all
	! $(KUBECTL) get crd nodeclaims.karpenter.sh >/dev/null 2>&1 || $(KUBECTL) delete nodeclaims.karpenter.sh --all
else
	@$(KUBECTL) get nodeclaims.karpenter.sh -o name 2>/dev/null | awk 'END {if (NR) print NR " machines stay, with their pools and claims, for whoever comes next; make delete MACHINES=delete ends them"}'
endif
	$(manifests) | $(KUBECTL) delete --ignore-not-found -f -

gen_instance_types: $(filter target/release/joiner,$(JOINER)) ## Write INSTANCE_TYPES anew, for --instance-types-file-path
	$(JOINER) instance-types generate > $(INSTANCE_TYPES)
