// Zip archives of a few texts: a .zplan file with the files that its scenarios read. Source: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.4.

import { BadInput, readAll } from "./input.js";

const LOCAL = 0x04034b50, CENTRAL = 0x02014b50, END = 0x06054b50;
const LOCAL_SIZE = 30, CENTRAL_SIZE = 46, END_SIZE = 22;
const IS_UTF8 = 1 << 11, STORED = 0, DEFLATED = 8;
const VERSION = 20; // 2.0, which every reader of the last thirty years knows
const DATE = 0x21; // 1 January 1980, the first that a zip can say: an archive depends on its contents alone
const MOST_ENTRIES = 1000, MOST_BYTES = 64 << 20;

/** CRC-32 of ISO 3309, the checksum of every entry. */
function checksum(bytes) {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; ++bit) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

/** Returns bytes of numbers, given as [size in bytes, value]…, little-endian. */
function numbers(...fields) {
  const view = new DataView(new ArrayBuffer(fields.reduce((sum, [size]) => sum + size, 0)));
  let at = 0;
  for (const [size, value] of fields) {
    if (size === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += size;
  }
  return new Uint8Array(view.buffer);
}

/** Returns the archive of texts by path, uncompressed, as a Blob. */
export function zipOf(texts) {
  const encoder = new TextEncoder();
  const parts = [], central = [];
  let at = 0, centralBytes = 0;
  const entries = Object.entries(texts);
  for (const [path, text] of entries) {
    const name = encoder.encode(path), data = encoder.encode(text);
    const about = [[2, VERSION], [2, IS_UTF8], [2, STORED], [2, 0], [2, DATE], [4, checksum(data)], [4, data.length], [4, data.length], [2, name.length], [2, 0]];
    parts.push(numbers([4, LOCAL], ...about), name, data);
    central.push(numbers([4, CENTRAL], [2, VERSION], ...about, [2, 0], [2, 0], [2, 0], [4, 0], [4, at]), name);
    at += LOCAL_SIZE + name.length + data.length;
    centralBytes += CENTRAL_SIZE + name.length;
  }
  const end = numbers([4, END], [2, 0], [2, 0], [2, entries.length], [2, entries.length], [4, centralBytes], [4, at], [2, 0]);
  return new Blob([...parts, ...central, end], { type: "application/zip" });
}

/** Returns texts by path. Throws BadInput where it is no archive, or not of what zip has had since 2.0. */
export async function readZip(buffer, name) {
  const view = new DataView(buffer), decoder = new TextDecoder();
  const broken = (what) => new BadInput(`${name}: ${what}. Accepted: an archive of a .zplan file and what its scenarios read, as Save makes it`);
  let end = buffer.byteLength - END_SIZE;
  while (end >= 0 && view.getUint32(end, true) !== END) --end;
  if (end < 0) throw broken("no zip archive");
  const count = view.getUint16(end + 10, true);
  if (count > MOST_ENTRIES) throw broken(`${count} files`);
  const texts = {};
  let at = view.getUint32(end + 16, true), left = MOST_BYTES;
  try {
    for (let i = 0; i < count; ++i) {
      if (view.getUint32(at, true) !== CENTRAL) throw new RangeError();
      const method = view.getUint16(at + 10, true), packed = view.getUint32(at + 20, true), nameLength = view.getUint16(at + 28, true);
      const path = decoder.decode(new Uint8Array(buffer, at + CENTRAL_SIZE, nameLength)), local = view.getUint32(at + 42, true);
      at += CENTRAL_SIZE + nameLength + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
      if (path.endsWith("/")) continue;
      if (view.getUint16(local + 4, true) > VERSION || (method !== STORED && method !== DEFLATED)) throw broken(`${path} is compressed or encrypted in a way that the page does not read`);
      const data = new Blob([new Uint8Array(buffer, local + LOCAL_SIZE + view.getUint16(local + 26, true) + view.getUint16(local + 28, true), packed)]).stream();
      const bytes = await readAll(method === STORED ? data : data.pipeThrough(new DecompressionStream("deflate-raw")), left, `${name}: ${path}`);
      left -= bytes.length;
      texts[path] = decoder.decode(bytes);
    }
  } catch (error) {
    if (error instanceof BadInput) throw error;
    throw broken("a damaged archive"); // a place beyond its end, or what DecompressionStream refuses
  }
  return texts;
}
