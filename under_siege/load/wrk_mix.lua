
-- Send the requests of a mix in the given order.

local requests, order, threads = dofile(os.getenv("HOME") .. "/mix.lua")
local formatted, turn = {}, 0
init = function(args)
  turn = math.floor((number - 1) * #order / threads)  -- threads begin with different requests
  for index, one in ipairs(requests) do
    local method, path, headers, body = unpack(one, 1, 4)
    for name, value in pairs(wrk.headers) do
      headers[name] = headers[name] or value
    end
    formatted[index] = wrk.format(method, path, headers, body)
  end
end
request = function()
  turn = turn % #order + 1
  return formatted[order[turn]]
end
