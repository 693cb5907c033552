
-- Let each connection wait before its next request, and first for a random time, so that users don't begin together.

local shortest_ms, longest_ms, is_exponential, connections = unpack(dofile(os.getenv("HOME") .. "/pause.lua"))
local begun = 0
delay = function()
  begun = begun + 1
  if begun == 1 then
    math.randomseed(number)
  end
  if begun <= connections then
    return math.floor(math.random() * (shortest_ms + longest_ms) / 2)
  elseif is_exponential then
    return math.floor(-math.log(1 - math.random()) * longest_ms)
  end
  return math.floor(shortest_ms + math.random() * (longest_ms - shortest_ms))
end
