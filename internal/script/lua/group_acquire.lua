-- Take several locks, or none. What grants and frees each of them stands before this.
-- KEYS  the keys of all calls, one after the other
-- ARGV  for each lock two calls, that which takes it and that which frees it:
--       the name of the script, the number of its keys, that of its arguments, and these
-- RETURN  a list: 0, then the token of each lock; or the number of the first lock that
--         could not be had, and what its script has returned
local keys, args = 0, 0
local function call()
  local name, nkeys, nargs = ARGV[args + 1], tonumber(ARGV[args + 2]), tonumber(ARGV[args + 3])
  local k, a = {unpack(KEYS, keys + 1, keys + nkeys)}, {unpack(ARGV, args + 4, args + 3 + nargs)}
  keys, args = keys + nkeys, args + 3 + nargs
  return name, k, a
end
local tokens, taken = {0}, {}
while args < #ARGV do
  local name, k, a = call()
  local free, fk, fa = call()
  local ok, reply = pcall(scripts[name], k, a)
  if ok and type(reply) == 'number' and reply > 0 then
    table.insert(tokens, reply)
    fa[#fa] = 'HEXISTS' -- instead of PUBLISH: nobody has seen it taken
    table.insert(taken, {free, fk, fa})
  else
    for i = #taken, 1, -1 do
      scripts[taken[i][1]](taken[i][2], taken[i][3])
    end
    if ok and type(reply) == 'number' then return {#tokens, reply} end
    if type(reply) == 'table' then return reply end -- an error, as a script returns it
    return redis.error_reply(tostring(reply))
  end
end
return tokens
