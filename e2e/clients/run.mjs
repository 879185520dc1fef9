// node run.mjs CLIENT STORY...: tells stories with one client, each on a
// connection of its own. It exits 0 when all went as they should.
import { connect } from './connect.mjs';
import { daemon } from './daemon.mjs';
import * as calls from './calls.mjs';
import * as fields from './fields.mjs';
import * as streams from './streams.mjs';

const stories = { ...calls, ...streams, ...fields };

const [client, ...names] = process.argv.slice(2);
let failed = 0;
for (const name of names) {
  const began = performance.now();
  let c;
  try {
    c = await connect(client, daemon);
    c = (await stories[name](c)) ?? c;
    console.error(`${name}: well, after ${(performance.now() - began).toFixed()} ms`);
  } catch (err) {
    failed++;
    console.error(`${name}: FAILED after ${(performance.now() - began).toFixed()} ms`, err);
  }
  await c?.close();
}
process.exit(failed ? 1 : 0);
