
-- Request random paths, in the same order for every server.

local paths, sizes = {}, {}
init = function(args)
  for line in io.lines(os.getenv("HOME") .. "/paths.txt") do
    local size, path = line:match("^(%d+) (.*)$")
    paths[#paths + 1], sizes[#sizes + 1] = path, tonumber(size)
  end
  math.randomseed(1)
end
request = function()
  local index = math.random(#paths)
  asked_bytes = asked_bytes + sizes[index]
  return wrk.format(nil, paths[index])
end
