"""Runs memcached and the four servers of Swift until stdin ends: swift-servers.py <folder> <ports as JSON>

The servers are forks of one process, because to load Swift takes each process a second.
"""

import json
import os
import signal
import subprocess
import sys

# Otherwise half of that second goes to a resolver of names. All servers are at 127.0.0.1.
os.environ["EVENTLET_NO_GREENDNS"] = "yes"
from swift.common.utils import eventlet_monkey_patch  # noqa: E402

# Each server does this at its start. It takes another second when all modules are loaded.
eventlet_monkey_patch()
from swift.account import server as _account  # noqa: E402, F401
from swift.common.middleware.s3api import s3api as _s3api  # noqa: E402, F401
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.wsgi import run_wsgi  # noqa: E402
from swift.container import server as _container  # noqa: E402, F401
from swift.obj import server as _object  # noqa: E402, F401
from swift.proxy import server as _proxy  # noqa: E402, F401

etc = os.path.join(sys.argv[1], "etc")
ports = json.loads(sys.argv[2])

for name in ("account", "container", "object"):
    builder = RingBuilder(4, 1, 1)
    device = {"region": 1, "zone": 1, "weight": 1.0, "device": "d1", "meta": ""}
    for use in ("", "replication_"):
        device.update({f"{use}ip": "127.0.0.1", f"{use}port": ports[name]})
    builder.add_dev(device)
    builder.rebalance()
    builder.get_ring().save(os.path.join(etc, f"{name}.ring.gz"))

memory = ["memcached", "-u", "nobody", "-l", "127.0.0.1", "-p", str(ports["cache"]), "-m", "16"]
children = [subprocess.Popen(memory, stdin=subprocess.DEVNULL).pid]
for name in ("account", "container", "object", "proxy"):
    child = os.fork()
    if child == 0:
        sys.exit(run_wsgi(os.path.join(etc, f"{name}-server.conf"), f"{name}-server"))
    children.append(child)

# Stdin ends also when the test that holds it is killed.
sys.stdin.read()
for child in children:
    os.kill(child, signal.SIGKILL)
for child in children:
    os.waitpid(child, 0)
