-- The calls of a group, for the functions in the table scripts. Each of these is a script of a single lock, with its keys, its
-- arguments and what it uses as redis as parameters.

-- calls returns a function for each call in ARGV[at] and what follows. It runs the call with the given redis, as pcall does.
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

-- through returns a redis whose commands go to run, with the name of the function that was to run them: call or pcall.
local function through(run)
  local view = {}
  for _, name in ipairs({'call', 'pcall'}) do
    view[name] = function(...) return run(name, ...) end
  end
  return setmetatable(view, {__index = redis})
end
