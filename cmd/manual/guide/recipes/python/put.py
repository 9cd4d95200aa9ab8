"""Puts three mails into the tube python-mail. Use: python3 put.py"""
import json
import os

import beanstalk

queue = beanstalk.Client(os.environ.get("BEANSTALKD_HOST", "127.0.0.1"), int(os.environ.get("BEANSTALKD_PORT", 11300)))
queue.use("python-mail")
for to in ["alice", "bob", "nobody"]:
    print("put job", queue.put(json.dumps({"to": to}).encode()))
