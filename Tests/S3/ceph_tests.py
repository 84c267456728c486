#!/usr/bin/env python3
"""Archives on a Ceph cluster with two gateways.

ceph_tests.py MORAINE FOLDER [--kills N] [--histories N] [--seed N] [--work DIRECTORY]
              [--bench PROGRAM] [-- COMMAND...]

Starts the cluster of ceph.py in FOLDER, and runs with it: COMMAND once for each gateway, with
MORAINE_BUCKET set; the check of a store of objects on both; 16 writers that race for each of many
names over both gateways; PROGRAM, which is MoraineArchiveBench, on the first gateway; and kills.py,
which also stops and kills gateways and OSDs. Needs root, boto3, and about 6 GB of memory. Exit code 1 when a step failed.
"""

import argparse
import concurrent.futures
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.dont_write_bytecode = True

import boto3  # noqa: E402
import botocore.config  # noqa: E402
import botocore.exceptions  # noqa: E402

import ceph  # noqa: E402
import kills  # noqa: E402

BUCKET = "moraine"


def client(endpoint):
    return boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=ceph.ACCESS,
        aws_secret_access_key=ceph.SECRET,
        config=botocore.config.Config(retries={"max_attempts": 0}, max_pool_connections=1))


def address(endpoint, prefix):
    return f"s3://{BUCKET}/{prefix}?endpoint={endpoint}"


def race(endpoints, names, width):
    """Lets writers create each name at the same time. Returns the number of wrong outcomes."""
    clients = [client(endpoints[number % len(endpoints)]) for number in range(width)]
    wrong = 0

    def create(number, key):
        try:
            clients[number].put_object(
                Bucket=BUCKET, Key=key, Body=str(number).encode(), IfNoneMatch="*")
            return True
        except botocore.exceptions.ClientError as error:
            status = error.response["ResponseMetadata"]["HTTPStatusCode"]
            return False if status in (409, 412) else None

    with concurrent.futures.ThreadPoolExecutor(width) as pool:
        for index in range(names):
            key = f"race/{index}"
            answers = list(pool.map(create, range(width), [key] * width))
            winners = [number for number, answer in enumerate(answers) if answer]
            found = [c.get_object(Bucket=BUCKET, Key=key)["Body"].read() for c in clients[:2]]
            if len(winners) != 1 or found != [str(winners[0]).encode()] * 2:
                print(f"  {key}: winners {winners}, found {found}", file=sys.stderr)
                wrong += 1
    return wrong


def step(title):
    print(f"== {title}", flush=True)


def run(options, cluster):
    step("Ceph: install and start")
    cluster.start()
    client(cluster.endpoints[0]).create_bucket(Bucket=BUCKET)
    for endpoint in cluster.endpoints:
        if options.command:
            step(f"Tests with {endpoint}")
            environment = dict(os.environ, MORAINE_BUCKET=address(endpoint, "tests"))
            subprocess.run(options.command, env=environment, check=True)
        step(f"The check accepts {endpoint}")
        store = pathlib.Path(options.folder + "-checked.moraine")
        subprocess.run([options.moraine, "drive", str(store)], input=b"put 61 61\n", check=True)
        name = f"checked-{cluster.endpoints.index(endpoint)}"
        subprocess.run([options.moraine, "archive", str(store), address(endpoint, name), "--create"],
                       check=True)
        subprocess.run(["rm", "-rf", str(store)], check=True)
    step("16 writers race over both gateways")
    wrong = race(cluster.endpoints, 100, 16)
    print(f"  100 names, {wrong} with another outcome than one winner", flush=True)
    if wrong:
        return 1
    if options.bench:
        step("The benchmark of archives")
        subprocess.run([options.bench, "--address", address(cluster.endpoints[0], "bench"),
                        *options.bench_options.split()], check=True)
    if options.kills == 0:
        return 0
    step("Writers, gateways and OSDs are killed, over broken networks")
    work = kills.Run(argparse.Namespace(
        moraine=options.moraine, directory=options.work or options.folder + "-kills", kills=options.kills,
        histories=options.histories, seed=options.seed, seconds=3.0, pid=None, plant=None,
        address=[address(endpoint, "kills") for endpoint in cluster.endpoints]), cluster)
    return 0 if work.run() else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("moraine")
    parser.add_argument("folder")
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--histories", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--bench", help="the program MoraineArchiveBench")
    parser.add_argument("--bench-options", default="", help="its options")
    parser.add_argument("--work", help="where the stores of kills.py are")
    arguments = sys.argv[1:]
    end = arguments.index("--") if "--" in arguments else len(arguments)
    options = parser.parse_args(arguments[:end])
    options.command = arguments[end + 1:]
    os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"] = ceph.ACCESS, ceph.SECRET
    cluster = ceph.Cluster(options.folder)
    try:
        return run(options, cluster)
    finally:
        cluster.stop()


if __name__ == "__main__":
    sys.exit(main())
