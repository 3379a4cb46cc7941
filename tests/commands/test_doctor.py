"""The doctor's findings, with the surroundings made up."""

import subprocess

import torch

from slackaug.commands import doctor


def test_no_torchvision_is_no_fault(monkeypatch):
    monkeypatch.setattr(doctor, "version", lambda package: None)
    assert doctor.torchvision().remedy == ""


def test_a_torchvision_that_does_not_import_gets_the_line_that_mends_it(monkeypatch):
    monkeypatch.setattr(doctor, "version", lambda package: "0.28.0")
    failed = subprocess.CompletedProcess([], 1, "", "Traceback\nRuntimeError: operator torchvision::nms does not exist")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    monkeypatch.setattr(torch, "__version__", "2.13.0+cpu")
    finding = doctor.torchvision()
    assert "operator torchvision::nms does not exist" in finding.state
    assert "'torchvision==0.28.*' --index-url https://download.pytorch.org/whl/cpu" in finding.remedy


def test_a_cuda_torch_without_a_device_is_said(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    assert "nvidia-smi" in doctor.gpu().remedy
