// What comes from outside the page: links and files.

/** A link or a file that cannot be read: `message` says what was found and what is accepted. */
export class BadInput extends Error {}

/** Returns what a stream holds. Throws BadInput where that is more than `most` bytes. */
export async function readAll(stream, most, name) {
  const parts = [];
  let size = 0;
  for (const reader = stream.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) return new Uint8Array(await new Blob(parts).arrayBuffer());
    size += value.length;
    if (size > most) {
      reader.cancel().catch(() => {});
      throw new BadInput(`${name}: more than ${most} bytes. Accepted: at most ${most}`);
    }
    parts.push(value);
  }
}
