#!/usr/bin/env bash
#SBATCH --job-name=slackaug
#SBATCH --nodes=1
#SBATCH --gpus=4
#SBATCH --cpus-per-task=32
#SBATCH --time=04:00:00
#SBATCH --signal=B:TERM@120
#SBATCH --requeue
# One search on all GPUs of a machine: a network of its own on each, one policy for all of them.
#
#     sbatch slurm.sh pets/ runs/pets --preset fast
#
# Two minutes before the time is over, SLURM sends TERM to this script (B:). The search then saves all and ends. Submit
# the same line again and it continues, as it does where SLURM requeues a job that it has preempted.
set -euo pipefail
data=$1 out=$2
shift 2
# A run that is there continues with its own settings; options are for a new one.
if [ -f "$out/config.yaml" ]; then options=(--resume); else options=("$@"); fi
# exec: the script becomes torchrun, which hands the signal on; a shell would wait for torchrun to end.
exec torchrun --standalone --nproc-per-node "${SLURM_GPUS_ON_NODE:-1}" \
  -m slackaug search "$data" -o "$out" "${options[@]}"
