-- Print the totals of a burst as one line of JSON, because wrk's own report rounds values and omits errors.
-- Counting bytes costs a microsecond per response. Comparing bodies adds no cost, because Lua interns strings.

local threads = {}
setup = function(thread)
  threads[#threads + 1] = thread
  thread:set("number", #threads)
end
body_bytes, asked_bytes, wrong_bodies, unannounced = 0, 0, 0, 0
dofile(os.getenv("HOME") .. "/request.lua")
local expected = dofile(os.getenv("HOME") .. "/expected.lua")
response = function(status, headers, body)
  body_bytes = body_bytes + #body
  local connection = headers["Connection"] or headers["connection"]
  if not connection or connection:lower() ~= "close" then
    unannounced = unannounced + 1
  end
  if expected and status < 400 and body ~= expected then
    wrong_bodies = wrong_bodies + 1
  end
end
done = function(summary, latency, requests)
  local totals = {
    requests = summary.requests, duration_us = summary.duration,
    connect = summary.errors.connect, read = summary.errors.read, write = summary.errors.write,
    status = summary.errors.status,
    p50_us = latency:percentile(50), p95_us = latency:percentile(95), p99_us = latency:percentile(99),
    max_us = latency.max, body_bytes = 0, asked_bytes = 0, wrong_bodies = 0,
    unannounced = 0
  }
  for _, thread in ipairs(threads) do
    totals.body_bytes = totals.body_bytes + thread:get("body_bytes")
    totals.asked_bytes = totals.asked_bytes + thread:get("asked_bytes")
    totals.wrong_bodies = totals.wrong_bodies + thread:get("wrong_bodies")
    totals.unannounced = totals.unannounced + thread:get("unannounced")
  end
  local parts = {}
  for name, value in pairs(totals) do
    parts[#parts + 1] = string.format('"%s": %.0f', name, value)
  end
  io.write("\n{" .. table.concat(parts, ", ") .. "}\n")
end
