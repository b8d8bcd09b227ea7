"""A worker that does what its question says: answers, ends, hangs, or prints where answers go."""

from __future__ import annotations

import os
import signal
import sys
import time

from benchmarks.process import Message, serve


def answer(question: Message) -> Message:
    match question["do"]:
        case "abort":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "exit":
            print("nothing left to live for", file=sys.stderr)
            os._exit(3)
        case "hang":
            time.sleep(60)
        case "print":
            print("noise")
            os.write(1, b"more noise\n")
    return {"did": question["do"]}


if __name__ == "__main__":
    serve(answer)
