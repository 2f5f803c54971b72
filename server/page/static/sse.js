// Server-sent events out of a stream of bytes: EventSource can't send the header with the token.

/** Yields, for each piece of the stream, the data of the events that it completes, maybe none. */
export async function* batches(stream) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split("\n\n");
    rest = blocks.pop();
    yield blocks.map(dataOf).filter((data) => data !== "");
  }
}

function dataOf(block) {
  return block
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(5).trimStart())
    .join("\n");
}
