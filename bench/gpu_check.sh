#!/usr/bin/env bash
# The paper's shape on one GPU, in at most eight minutes: speed, utilisation, what recording costs, and a run that
# collapses. Needs no network, and takes the Python environment that it finds: PYTHON names one, and packages that it
# lacks may lie in build/gpu_check (docs/benchmarks.md). Writes to $OUT, results/gpu_check by default.
# Options are those of bench/gpu_check.py: --tiny tries everything out on a CPU.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
OUT="${OUT:-results/gpu_check}"
mkdir -p "$OUT"
export PYTHONPATH="$PWD/src:$PWD/build/gpu_check${PYTHONPATH:+:$PYTHONPATH}"
export PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore HF_HUB_OFFLINE=1 TOKENIZERS_PARALLELISM=false

find_python() { # the first one for which a line of Python holds
    local python
    for python in ${PYTHON:-.venv/bin/python python3 python /opt/conda/bin/python /usr/bin/python3}; do
        if command -v "$python" >/dev/null && "$python" -c "$1" 2>/dev/null; then
            echo "$python"
            return
        fi
    done
    return 1
}

if ! python=$(find_python 'import torch; assert torch.cuda.is_available()') && ! python=$(find_python 'import torch'); then
    echo "error: no Python here can import torch: set PYTHON to one that has PyTorch with CUDA" >&2
    exit 1
fi
if command -v nvidia-smi >/dev/null; then nvidia-smi -L; fi
status=0
timeout --kill-after=10 470 "$python" bench/gpu_check.py --out "$OUT" "$@" 2>&1 | tee "$OUT/output.txt" || status=$?
if [ "$status" -eq 124 ] || [ "$status" -eq 137 ]; then
    echo "error: stopped after eight minutes; what was measured until then is above, and in $OUT/output.txt" >&2
fi
if [ -d "$OUT/run" ]; then # one file in place of a deep folder
    tar -czf "$OUT/run.tar.gz" -C "$OUT" run && rm -r "$OUT/run"
fi
exit "$status"
