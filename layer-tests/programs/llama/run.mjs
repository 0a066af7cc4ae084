// Loads a model into llama.cpp (the npm package node-llama-cpp) on Vulkan, and prints the next eight tokens.
//
// Its arguments are the folder that holds node_modules, and the model's file.
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [, , folder, file] = process.argv;
const require = createRequire(join(folder, 'package.json'));
const { getLlama } = await import(pathToFileURL(require.resolve('node-llama-cpp')).href);
// The package must neither build nor download anything.
const llama = await getLlama({ gpu: 'vulkan', build: 'never', skipDownload: true, progressLogs: false });
if (llama.gpu !== 'vulkan') throw new Error(`llama.cpp runs on ${llama.gpu}`);
const model = await llama.loadModel({ modelPath: file, gpuLayers: 'max' });
const context = await model.createContext({ contextSize: 64, sequences: 1 });
const said = [];
for await (const token of context.getSequence().evaluate(model.tokenize('hello'), { temperature: 0 })) {
    said.push(token);
    if (said.length === 8) break;
}
console.log('tokens:', said.join(' '));
await llama.dispose();
