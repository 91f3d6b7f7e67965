-- The calls of a group, for the functions in the table scripts. Each function is the script of a single lock. Its parameters are the
-- keys, the arguments, and the table that the script uses as redis.

-- calls returns a function for each call from ARGV[at] on. The function runs the call with the given redis and returns what pcall
-- returns.
local function calls(at)
  local list, key = {}, 1
  while at <= #ARGV do
    local script, nkeys, nargs = scripts[ARGV[at]], tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2])
    local keys, args = {unpack(KEYS, key, key + nkeys - 1)}, {unpack(ARGV, at + 3, at + 2 + nargs)}
    list[#list + 1] = function(view) return pcall(script, keys, args, view) end
    key, at = key + nkeys, at + 3 + nargs
  end
  return list
end

-- through returns a redis whose commands go to run. The first parameter of run is the name of the called function: call or pcall.
local function through(run)
  local view = {}
  for _, name in ipairs({'call', 'pcall'}) do
    view[name] = function(...) return run(name, ...) end
  end
  return setmetatable(view, {__index = redis})
end
