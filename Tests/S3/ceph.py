"""A Ceph cluster with two gateways that speak S3, for tests: installed and started in an overlay.

Needs root, apt-get and about 6 GB of memory. The overlay is a mount namespace over a file system in
memory, so nothing is installed on the machine, and all of it is gone when its processes have ended.
"""

import os
import pathlib
import signal
import subprocess
import time
import urllib.error
import urllib.request

OSD_COUNT = 3
PORTS = {"rgw1": 17480, "rgw2": 17481}
ACCESS, SECRET = "moraineaccess", "morainesecretkey"
DATA = "/moraine-ceph"

OVERLAY = """
set -e
mount --make-rprivate /
mount -t tmpfs -o size=6g tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
mount --rbind /dev "$1/root/dev"
mount -t proc proc "$1/root/proc"
mount --rbind /sys "$1/root/sys"
echo ready
exec chroot "$1/root" sleep infinity
"""

INSTALL = """
set -e
export DEBIAN_FRONTEND=noninteractive
printf '#!/bin/sh\\nexit 101\\n' >/usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
apt-get update -qq
apt-get install -y -qq --no-install-recommends radosgw ceph-mon ceph-osd ceph-mgr ceph-common
"""

CONFIGURATION = """[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:13300,v1:127.0.0.1:16789]
public addr = 127.0.0.1
cluster addr = 127.0.0.1
auth cluster required = none
auth service required = none
auth client required = none
osd pool default size = {count}
osd pool default min size = 2
osd pool default pg num = 4
osd pool default pgp num = 4
osd crush chooseleaf type = 0
osd pool default pg autoscale mode = off
run dir = {data}/run
log file = {data}/log/$name.log
admin socket = {data}/run/$name.asok
pid file = {data}/run/$name.pid
[mon]
mon data = {data}/mon
mon initial members = a
mon data avail crit = 1
mon data avail warn = 2
[mgr]
mgr data = {data}/mgr
mgr initial modules =
[osd]
osd data = {data}/osd$id
osd objectstore = bluestore
bluestore block size = 1073741824
bluestore block create = true
osd memory target = 939524096
osd memory cache min = 67108864
bluestore cache autotune = false
bluestore cache size = 67108864
osd op num shards = 1
osd op num threads per shard = 2
osd heartbeat interval = 1
osd heartbeat grace = 6
mon osd adjust heartbeat grace = false
"""

GATEWAY = """[client.{name}]
ms mon client mode = crc
rgw data = {data}/{name}
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw thread pool size = 24
rgw run sync thread = false
rgw enable usage log = false
"""


class Cluster:
    """The cluster. `stop` must be called, also after an error of `start`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.holder = None
        #: Process ids of the servers, by name: mon, mgr, osd0, rgw1, and so on.
        self.processes = {}

    @property
    def endpoints(self):
        return [f"http://127.0.0.1:{port}" for port in PORTS.values()]

    def start(self):
        self.folder.mkdir(parents=True)
        self.holder = subprocess.Popen(
            ["unshare", "-m", "bash", "-c", OVERLAY, "overlay", str(self.folder)],
            stdout=subprocess.PIPE, text=True, start_new_session=True)
        if self.holder.stdout.readline() != "ready\n":
            raise RuntimeError("the overlay cannot be mounted; this needs root")
        began = time.monotonic()
        self.run("bash", "-c", INSTALL)
        print(f"  installed {self.run('ceph', '--version').strip()}: "
              f"{time.monotonic() - began:.0f} s", flush=True)
        self.start_servers()
        print(f"  started 3 OSDs and 2 gateways: {time.monotonic() - began:.0f} s", flush=True)

    def run(self, *command, check=True):
        done = subprocess.run(
            ["nsenter", "-t", str(self.holder.pid), "-m", "-r", "-w", "env",
             f"CEPH_CONF={DATA}/ceph.conf", *command],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command[:4])} failed: {done.stdout[-2000:]}")
        return done.stdout

    def start_servers(self):
        fsid = pathlib.Path("/proc/sys/kernel/random/uuid").read_text().strip()
        text = CONFIGURATION.format(fsid=fsid, count=OSD_COUNT, data=DATA)
        for name, port in PORTS.items():
            text += GATEWAY.format(name=name, port=port, data=DATA)
        folders = ["mon", "mgr", "run", "log", *PORTS, *(f"osd{n}" for n in range(OSD_COUNT))]
        self.run("mkdir", "-p", *(f"{DATA}/{name}" for name in folders))
        self.run("bash", "-c", 'printf %s "$1" >"$2"', "write", text, f"{DATA}/ceph.conf")
        self.run("monmaptool", "--create", "--clobber", "--fsid", fsid, "--addv", "a",
                 "[v2:127.0.0.1:13300,v1:127.0.0.1:16789]", f"{DATA}/monmap")
        self.run("ceph-mon", "--mkfs", "-i", "a", "--monmap", f"{DATA}/monmap")
        self.daemon("mon", "mon.a", "ceph-mon", "-i", "a")
        self.run("timeout", "60", "ceph", "-s")
        self.daemon("mgr", "mgr.x", "ceph-mgr", "-i", "x")
        for number in range(OSD_COUNT):
            identity = pathlib.Path("/proc/sys/kernel/random/uuid").read_text().strip()
            self.run("ceph", "osd", "new", identity)
            self.run("ceph-osd", "-i", str(number), "--mkfs", "--osd-uuid", identity)
            self.start_osd(number)
        self.wait("the OSDs", lambda: f"{OSD_COUNT} up" in self.run("ceph", "osd", "stat"))
        for name in PORTS:
            self.start_gateway(name)
        self.run("radosgw-admin", "-n", "client.rgw1", "user", "create", "--uid=moraine",
                 "--display-name=moraine", f"--access-key={ACCESS}", f"--secret={SECRET}")

    def daemon(self, name, file, *command):
        self.run(*command)
        pid_file = f"{DATA}/run/{file}.pid"
        self.wait(name, lambda: self.run("cat", pid_file, check=False).strip().isdigit())
        self.processes[name] = int(self.run("cat", pid_file))

    def start_osd(self, number):
        self.daemon(f"osd{number}", f"osd.{number}", "ceph-osd", "-i", str(number))

    def start_gateway(self, name):
        self.daemon(name, f"client.{name}", "radosgw", "-n", f"client.{name}")
        self.wait(name, lambda: self.answers(PORTS[name]))

    def restart(self, name):
        """Starts a server that was killed."""
        if name.startswith("osd"):
            self.start_osd(int(name[3:]))
        else:
            self.start_gateway(name)

    def signal(self, name, number):
        os.kill(self.processes[name], number)
        if number == signal.SIGKILL:
            pid = self.processes.pop(name)
            self.wait(name, lambda: not is_running(pid))

    @staticmethod
    def answers(port):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).read()
            return True
        except (urllib.error.URLError, OSError):
            return False

    @staticmethod
    def wait(what, condition, seconds=120):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise RuntimeError(f"{what} did not answer in {seconds} s")
            time.sleep(0.2)

    def stop(self):
        for pid in self.processes.values():
            try:
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        if self.holder:
            self.holder.kill()
            self.holder.wait()
        if self.folder.is_dir():
            self.folder.rmdir()


def is_running(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        return state != "Z"
    except FileNotFoundError:
        return False
