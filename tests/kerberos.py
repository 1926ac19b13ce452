"""A Kerberos realm on loopback: MIT's KDC, installed or unpacked from Debian's packages without root.

The realm has a service principal for brokers on localhost and users with keytabs. Source of the settings:
https://web.mit.edu/kerberos/krb5-1.20/doc/admin/conf_files/kdc_conf.html
"""

from __future__ import annotations

import functools
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from tests.jvm_archive import locked
from tests.needs import skip_or_fail
from tests.real_kafka import cache_directory, die_with_parent, free_ports

REALM = "KCLI.TEST"
SERVICE = f"kafka/localhost@{REALM}"
KDC = "usr/sbin/krb5kdc"
PACKAGES = (
    "krb5-kdc",
    "krb5-user",
    "krb5-admin-server",
    "libkadm5srv-mit12",
    "libkadm5clnt-mit12",
    "libkdb5-10",
    "libgssrpc4",
    "libverto1",
    "libverto-libev1",
    "libev4",
)

CLIENT_SETTINGS = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
"""
SERVER_SETTINGS = """[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
  max_life = 10h
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
 }}
[dbmodules]
 db_module_dir = {plugins}
"""


class Kerberos:
    """A realm in a folder: its configuration for clients, keytabs and ticket caches."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def configuration(self) -> Path:
        """The krb5.conf for clients and brokers: KRB5_CONFIG, or Java's java.security.krb5.conf."""
        return self.folder / "krb5.conf"

    @property
    def environment(self) -> dict[str, str]:
        """Variables that make libkrb5 use this realm and none of this machine's tickets."""
        return {"KRB5_CONFIG": str(self.configuration), "KRB5CCNAME": f"FILE:{self.folder}/no-tickets"}

    def keytab(self, name: str) -> Path:
        """Return the keytab of a user, or of the broker: `kafka`."""
        return self.folder / f"{name}.keytab"

    def ticket_cache(self, name: str) -> Path:
        """Return a new credential cache with a ticket for this user, as `kinit` leaves it."""
        handle, path = tempfile.mkstemp(dir=self.folder, prefix=f"{name}-", suffix=".cache")
        os.close(handle)
        self._run("usr/bin/kinit", "-k", "-t", str(self.keytab(name)), "-c", path, f"{name}@{REALM}")
        return Path(path)

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(_mit_kerberos() / program), *arguments]
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, env=self._variables()
        )
        assert done.returncode == 0, f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}"

    def _variables(self) -> dict[str, str]:
        return {
            **os.environ,
            **self.environment,
            "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf"),
            "LD_LIBRARY_PATH": ":".join(str(folder) for folder in _mit_kerberos().glob("usr/lib/*-linux-gnu")),
        }


class Kdc(Kerberos):
    """A realm with its running KDC. The kernel kills it when the thread that started it ends."""

    def __init__(self, folder: Path, users: tuple[str, ...]) -> None:
        """Create the realm and start the KDC. Without MIT Kerberos the test is skipped."""
        super().__init__(folder)
        folder.mkdir(parents=True)
        [port] = free_ports(1)
        [plugins] = _mit_kerberos().glob("usr/lib/*-linux-gnu/krb5/plugins/kdb")
        values = {"realm": REALM, "port": port, "folder": folder, "plugins": plugins}
        self.configuration.write_text(CLIENT_SETTINGS.format(**values))
        (folder / "kdc.conf").write_text(SERVER_SETTINGS.format(**values))
        self._run("usr/sbin/kdb5_util", "create", "-s", "-r", REALM, "-P", "master-secret")
        self._add(SERVICE, self.keytab("kafka"))
        for user in users:
            self._add(f"{user}@{REALM}", self.keytab(user))
        with (folder / "kdc.log").open("wb") as log:
            self._process = subprocess.Popen(
                [str(_mit_kerberos() / KDC), "-n"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._variables(),
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self._wait_until_ready(port)

    def _add(self, principal: str, keytab: Path) -> None:
        query = f"addprinc -randkey {principal}", f"ktadd -k {keytab} {principal}"
        for line in query:
            self._run("usr/sbin/kadmin.local", "-r", REALM, "-q", line)
        assert keytab.exists(), f"kadmin.local made no keytab for {principal}"

    def _wait_until_ready(self, port: int) -> None:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                return
            except OSError:
                log = (self.folder / "kdc.log").read_text(errors="replace")
                assert self._process.poll() is None, f"the KDC did not start:\n{log}"
                assert time.monotonic() < deadline, f"the KDC does not answer:\n{log}"
                time.sleep(0.02)

    def stop(self) -> None:
        """End the KDC."""
        self._process.kill()
        self._process.wait()


@functools.cache
def _mit_kerberos() -> Path:
    """Return the folder that holds MIT Kerberos: `/` if it is installed, else the unpacked packages in the cache."""
    if Path("/", KDC).exists():
        return Path("/")
    for program in ("apt-get", "dpkg"):
        if shutil.which(program) is None:
            skip_or_fail(f"no Kerberos: {Path('/', KDC)} is missing and there is no `{program}` on the PATH")
    folder = cache_directory() / "krb5"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with locked(folder.with_name("krb5.lock")):
        if not folder.exists():
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
                _unpack(Path(scratch))
                Path(scratch, "root").rename(folder)  # atomic
    return folder


def _unpack(scratch: Path) -> None:
    download = ["apt-get", "download", "-qq", *PACKAGES]
    done = subprocess.run(download, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    if done.returncode != 0 and os.geteuid() == 0:  # a new machine has no package lists
        subprocess.run(["apt-get", "update", "-qq"], stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
        done = subprocess.run(
            download, cwd=scratch, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120
        )
    if done.returncode != 0:
        output = (done.stderr + done.stdout).strip().splitlines()
        skip_or_fail(f"no Kerberos: `{' '.join(download)}` failed: {output[-1] if output else 'no output'}")
    for package in scratch.glob("*.deb"):
        subprocess.run(["dpkg", "-x", str(package), str(scratch / "root")], check=True, timeout=60)
