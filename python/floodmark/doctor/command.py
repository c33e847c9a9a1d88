"""`floodmark doctor`: finds the facts and hands them to `_core`, which prints them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from floodmark import _core
from floodmark.doctor import environment, trials
from floodmark.doctor.check import Check


def doctor(plan: _core.DoctorPlan) -> int:
    """Check this environment and print what works; the exit status."""
    torch = environment.torch()
    checks = [environment.python(), environment.floodmark(), torch, environment.driver()]
    folders = environment.folders()
    recording: list[Check] = []
    estimate = Check("Simulated GPU", "failed", "not tried: torch is not installed")
    can_try = torch.status == "ok" and folders[1].status != "failed"
    if can_try:
        with tempfile.TemporaryDirectory(prefix="floodmark-doctor-") as folder:
            recording = trials.record(Path(folder))
            estimate = trials.estimate(Path(folder))
    else:
        recording = [Check("Recording", "failed", "not tried: see above and below")]
    rest = [*folders, environment.libraries(), environment.settings()]
    facts = {
        "format": 1,
        "can_record": recording[0].status != "failed",
        "can_estimate": estimate.status != "failed",
        "checks": [check.to_dict() for check in [*checks, *recording, estimate, *rest]],
    }
    return _core.show_doctor(json.dumps(facts), plan.json)
