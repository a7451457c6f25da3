# The scripts do the work and can be read and run by themselves.
.PHONY: demo demo-harden demo-text test test-fast test-all check serve setup bench bench-gpu release clean

demo:
	scripts/demo

demo-harden:
	scripts/demo --only-harden

demo-text:
	scripts/demo-text

test:
	scripts/test

test-fast:
	scripts/test-fast

test-all:
	scripts/test-all

check:
	scripts/setup dev
	scripts/check

serve:
	scripts/serve

setup:
	scripts/setup dev

bench:
	scripts/setup bench
	@for name in pgd api upload_memory sandbox text_attack certify adaptive cce autoattack transductive judging low_level; do echo "== $$name"; .venv/bin/python -m benchmarks.$$name || exit 1; done

bench-gpu:
	scripts/setup bench
	@.venv/bin/python -m benchmarks.gpu
	@echo "== pgd" && .venv/bin/python -m benchmarks.pgd
	@echo "== certify" && .venv/bin/python -m benchmarks.certify --device cuda --precisions float32 bfloat16
	@echo "== text_attack" && .venv/bin/python -m benchmarks.text_attack --device cuda --parts batches
	@echo "== gpu_training" && .venv/bin/python -m benchmarks.gpu_training

release:
	scripts/release

clean:
	rm -rf .venv .demo .demo-text build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
