-- Free several locks. What frees each of them stands before this.
-- KEYS  the keys of all calls, one after the other
-- ARGV  for each lock the call which frees it: the name of the script, the number of its
--       keys, that of its arguments, and these
-- RETURN  how many were held
local keys, args, held = 0, 0, 0
while args < #ARGV do
  local name, nkeys, nargs = ARGV[args + 1], tonumber(ARGV[args + 2]), tonumber(ARGV[args + 3])
  local ok, reply = pcall(scripts[name], {unpack(KEYS, keys + 1, keys + nkeys)}, {unpack(ARGV, args + 4, args + 3 + nargs)})
  if ok and reply > 0 then held = held + 1 end -- one that fails must not keep the others
  keys, args = keys + nkeys, args + 3 + nargs
end
return held
