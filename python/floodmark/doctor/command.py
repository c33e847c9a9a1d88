"""`floodmark doctor`: collects the checks; `_core` prints them."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from floodmark import _core
from floodmark.doctor import environment, trials
from floodmark.doctor.check import Check


def doctor(request: _core.DoctorRequest) -> int:
    """Check this environment and print what works; the exit status."""
    torch = environment.torch()
    checks = [environment.python(), environment.floodmark(), torch, environment.driver()]
    folders = environment.folders()
    missing = next((check for check in (torch, folders[1]) if check.status == "failed"), None)
    if missing is None:
        with tempfile.TemporaryDirectory(prefix="floodmark-doctor-") as folder:
            recording = trials.record(Path(folder))
            estimate = trials.estimate(Path(folder))
    else:
        reason = f"not tried ({missing.name}: {missing.result})"
        recording = [Check("Recording", "failed", reason)]
        estimate = Check("Simulated GPU", "failed", reason)
    rest = [*folders, environment.libraries(), environment.settings()]
    facts = {
        "format": 1,
        "can_record": recording[0].status != "failed",
        "can_estimate": estimate.status != "failed",
        "checks": [check.to_dict() for check in [*checks, *recording, estimate, *rest]],
    }
    return _core.show_doctor(json.dumps(facts), request.json)
