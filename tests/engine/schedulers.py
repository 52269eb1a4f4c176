"""A scheduler that changes nothing and writes down what reaches it."""

from __future__ import annotations

import json
import os
from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler

#: Names the file to append to; the scheduler lives in the engine's own process.
RECORD_FILE = "JEVSERVE_TEST_RECORDS"


class RecordingScheduler(Scheduler):
    """Appends one JSON line per event: an added row, its prompt length and its group record, or
    rows finished from outside (aborted)."""

    def add_request(self, request: Any) -> Any:
        extra = (
            request.pooling_params.extra_kwargs
            if request.pooling_params is not None
            else request.sampling_params.extra_args
        )
        write(
            {"event": "added", "tokens": request.num_prompt_tokens, "jev": (extra or {}).get("jev")}
        )
        return super().add_request(request)

    def finish_requests(self, request_ids: Any, *args: Any, **kwargs: Any) -> Any:
        ids = [request_ids] if isinstance(request_ids, str) else list(request_ids or [])
        write({"event": "finished", "ids": ids})
        return super().finish_requests(request_ids, *args, **kwargs)

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        output = super().schedule(*args, **kwargs)
        if output.total_num_scheduled_tokens:
            write({"event": "round", "tokens": output.total_num_scheduled_tokens})
        return output


def write(event: dict[str, Any]) -> None:
    with open(os.environ[RECORD_FILE], "a") as file:
        file.write(json.dumps(event) + "\n")
