"""Firefox, driven by its own protocol (Marionette): a message is its length, a colon, and JSON."""
import json
import os
import shutil
import socket
import subprocess
import tempfile
import time


class Firefox:
    """A Firefox without a window and with a new profile. Use it in a `with`."""

    def __init__(self, program):
        self.profile = tempfile.mkdtemp(prefix="zplan-firefox-")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        with open(os.path.join(self.profile, "user.js"), "w", encoding="utf-8") as file:
            file.write(f'user_pref("marionette.port", {self.port});\nuser_pref("datareporting.policy.dataSubmissionEnabled", false);\n'
                       'user_pref("browser.shell.checkDefaultBrowser", false);\nuser_pref("app.update.enabled", false);\n')
        self.process = subprocess.Popen([program, "--headless", "--marionette", "--no-remote", "--profile", self.profile],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "HOME": self.profile})
        self.socket, self.next = None, 0

    def __enter__(self):
        end = time.monotonic() + 60
        while self.socket is None:
            try:
                self.socket = socket.create_connection(("127.0.0.1", self.port), timeout=60)
            except OSError:
                if time.monotonic() > end or self.process.poll() is not None:
                    self.__exit__()
                    raise
                time.sleep(0.2)
        self._read()
        self.call("WebDriver:NewSession", {"pageLoadStrategy": "normal"})
        return self

    def __exit__(self, *_):
        if self.socket is not None:
            self.socket.close()
        self.process.terminate()
        self.process.wait(30)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _read(self):
        length = b""
        while not length.endswith(b":"):
            length += self.socket.recv(1)
        left, text = int(length[:-1]), b""
        while len(text) < left:
            text += self.socket.recv(left - len(text))
        return json.loads(text)

    def call(self, command, parameters):
        """Returns what a command of WebDriver gives; raises where it fails."""
        self.next += 1
        message = json.dumps([0, self.next, command, parameters]).encode()
        self.socket.sendall(str(len(message)).encode() + b":" + message)
        _, _, error, result = self._read()
        if error:
            raise RuntimeError(f"{command}: {error['error']}: {error['message']}")
        return result

    def goto(self, address):
        self.call("WebDriver:Navigate", {"url": address})

    def evaluate(self, expression):
        return self.call("WebDriver:ExecuteScript", {"script": f"return {expression};", "args": []})["value"]

    def wait_for_timeout(self, milliseconds):
        time.sleep(milliseconds / 1000)
