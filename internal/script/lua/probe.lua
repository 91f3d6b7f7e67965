-- Try the commands of all scripts in forms that change no data.
-- KEYS  a key of the slot, or none
-- ARGV  1 PUBLISH
--       2 a channel without subscribers
--       3 an unused key
--       4.. commands, as words: K is that key; M is a missing key; S is that key, for a command that fails on it but would
--           have an effect if it did not exist
-- RETURN  for each command, and at last for the first argument, the error of the server, or ''
local key, answers = ARGV[3], {}
local function try(...)
  local r = redis.pcall(...)
  answers[#answers + 1] = type(r) == 'table' and r.err or ''
end
-- The key holds a string, so that commands for other types fail. It expires soon, in case that it may not be deleted.
local set = redis.pcall('set', key, 'x', 'px', 1000, 'nx')
-- If the user may not use the key, the other commands cannot change it either.
local made = type(set) == 'table' and (set.ok ~= nil or string.find(set.err, 'access') ~= nil)
local names = {K = key, S = key, M = key .. ':missing'}
for i = 4, #ARGV do
  local words, skip = {}, false
  for w in string.gmatch(ARGV[i], '%S+') do
    skip = skip or w == 'S' and not made
    words[#words + 1] = names[w] or w
  end
  if skip then answers[#answers + 1] = '' else try(unpack(words)) end
end
redis.pcall('del', key)
try(ARGV[1], ARGV[2], '0')
return answers
