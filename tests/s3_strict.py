"""A second server that speaks S3 for tests: s3proxy, in a JVM, from memory. It believes no request
whose signature it has not computed itself, and knows none of AWS's newer checksums.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.hdfs import fetched
from tests.s3 import S3Server

_ARTIFACT: Final = "org.gaul:s3proxy:2.6.0:jar:jar-with-dependencies"
_ADDRESS: Final = re.compile(r"Started ServerConnector.*\{([\d.]+:\d+)\}")
_CONF: Final = """
s3proxy.endpoint=http://127.0.0.1:0
s3proxy.authorization=aws-v4
s3proxy.identity=tester
s3proxy.credential=tester's-secret
jclouds.provider=transient
jclouds.identity=x
jclouds.credential=x
"""


@contextmanager
def strict_server() -> Iterator[S3Server]:
    """A server for as long as the block lasts; buckets are made by who has keys.

    Raises:
        HiveIsMissingError: its jar cannot be fetched.
    """
    jar = fetched(_ARTIFACT, "s3proxy")
    with tempfile.TemporaryDirectory() as directory:
        conf = Path(directory) / "conf"
        conf.write_text(_CONF)
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-DLOG_LEVEL=info")
        with subprocess.Popen(
            ["java", *options, "-jar", str(jar), "--properties", str(conf)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            assert process.stdout is not None
            try:
                said = (_ADDRESS.search(line) for line in process.stdout)
                address = next((found[1] for found in said if found), None)
                assert address is not None, "s3proxy has ended"
                with subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL):
                    yield S3Server(f"http://{address}", conf)
                    process.terminate()
            finally:
                process.terminate()
