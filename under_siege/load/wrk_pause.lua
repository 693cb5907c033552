
-- Let each connection wait before its next request, and first for a random time, so that users don't begin together.

local shortest_ms, longest_ms, is_exponential, connections = unpack(dofile(os.getenv("HOME") .. "/pause.lua"))
local begun = 0
delay = function()
  begun = begun + 1
  if begun == 1 then
    math.randomseed(number)
  end
  if begun <= connections and not is_exponential then
    local length_ms
    repeat -- the rest of a pause that is in progress at a random moment; see `Pause.draw_rest_s`
      length_ms = shortest_ms + math.random() * (longest_ms - shortest_ms)
    until math.random() * longest_ms <= length_ms
    return math.floor(math.random() * length_ms)
  elseif is_exponential then
    return math.floor(-math.log(1 - math.random()) * longest_ms)
  end
  return math.floor(shortest_ms + math.random() * (longest_ms - shortest_ms))
end
