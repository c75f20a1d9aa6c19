"""A callback for tests that MindFormers imports by ``auto_register: die_at.DieAt``."""

import contextlib
import os
import signal

import psutil
from mindformers.tools.register import MindFormerModuleType, MindFormerRegister
from mindspore.train import Callback


@MindFormerRegister.register(MindFormerModuleType.CALLBACK)
class DieAt(Callback):
    """Kills its own process, as the kernel would, at the end of a step; under msrun all that msrun has started, too."""

    def __init__(self, step):
        super().__init__()
        self.step = step

    def on_train_step_end(self, run_context):
        params = run_context.original_args()
        if params.train_dataset.get_init_step() + params.cur_step_num == self.step:
            if "MS_ROLE" in os.environ:
                # Else the scheduler waits long for workers that will never come back.
                msrun = psutil.Process(os.getppid())
                for process in [msrun, *msrun.children()]:
                    if process.pid != os.getpid():
                        with contextlib.suppress(psutil.NoSuchProcess):
                            process.kill()
            os.kill(os.getpid(), signal.SIGKILL)
