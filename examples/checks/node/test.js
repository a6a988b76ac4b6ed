const assert = require("assert");
const sum = require("./dist/sum.js");
assert.strictEqual(sum(2, 3), 5);
console.log("ok");
